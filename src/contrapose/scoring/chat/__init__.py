"""Multiple choice asked in words: prompts, every order of their options, how replies are read."""

from contrapose.scoring.chat.asking import Sheet, Usage, ask_chat
from contrapose.scoring.chat.rounds import Round, rounds_of, unfit_for_chat
from contrapose.scoring.chat.templates import ChatTemplate, is_chat, template_for

__all__ = [
    "ChatTemplate",
    "Round",
    "Sheet",
    "Usage",
    "ask_chat",
    "is_chat",
    "rounds_of",
    "template_for",
    "unfit_for_chat",
]
