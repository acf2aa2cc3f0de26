"""Multiple-choice prompts for chat models: every order of the options, and strict reply parsing."""

from contrapose.engine.chat.prompts import (
    ChatRound,
    ChatTemplate,
    build_rounds,
    explain_unfit,
    find_template,
    is_chat,
)
from contrapose.engine.chat.replies import ChatUsage, ReplyTable, collect_replies

__all__ = [
    "ChatRound",
    "ChatTemplate",
    "ChatUsage",
    "ReplyTable",
    "build_rounds",
    "collect_replies",
    "explain_unfit",
    "find_template",
    "is_chat",
]
