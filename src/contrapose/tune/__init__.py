"""Repair: fine-tuning that fixes composition and shows what it cost."""
