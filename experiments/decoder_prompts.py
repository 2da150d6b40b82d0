"""Prompts of 5 to 60 tokens for the study of decoders: facts, arithmetic, stories, code, other languages, chats."""

from __future__ import annotations

FACTS = [
    "The capital of France is",
    "The capital of Japan is",
    "The largest planet in the solar system is",
    "The opposite of hot is",
    "Water freezes at a temperature of",
    "The author of Romeo and Juliet is William",
    "A triangle has three sides and a square has",
    "The chemical symbol for gold is",
    "The first president of the United States was George",
    "Bees make honey, cows give milk, and hens lay",
]
NUMBERS = [
    "One, two, three, four,",
    "2 + 2 =",
    "Monday, Tuesday, Wednesday,",
    "10, 20, 30, 40,",
    "If I have 3 apples and eat 1, I have",
    "A dozen eggs is the same as",
    "There are 60 seconds in a minute and 60 minutes in an",
]
STORIES = [
    "Once upon a time there was a",
    "The cat sat on the",
    "She opened the door and saw",
    "It was a dark and stormy",
    "The children were playing in the garden when it suddenly started to",
    "He was so tired after work that he went straight to",
    "The old man looked at the sea every morning, because his son had sailed away on a",
    "I put the milk back into the",
    "Tom gave his sister a book for her birthday, and she thanked",
    "The thief ran down the street, turned the corner, jumped over a fence and hid behind a",
    "When the teacher came into the room, all the pupils stopped talking and",
    "The soup was much too hot, so Anna waited until it had",
]
OPINIONS = [
    "This movie was not funny at all, it was",
    "I loved the food, but the service was",
    "The review says that the phone is cheap but its battery is",
    "Nobody came to the party, and so the host felt very",
    "The hotel was clean, quiet and close to the beach. We would certainly",
]
CODE = [
    "def add(a, b):\n    return",
    "for i in range(10):\n    print(",
    "import numpy as np\nimport pandas as",
    "<html><head><title>My page</title></head><body><h1>Hello</h1></",
    "SELECT name, age FROM users WHERE age >",
    "x = [1, 2, 3]\nprint(len(x))  # prints",
    "def is_even(n):\n    return n % 2 ==",
]
OTHERS = [
    "La capitale de la France est",
    "Der Himmel ist blau und das Gras ist",
    "日本の首都は",
    "Buenos días, ¿cómo",
    "Le chat est assis sur la",
]
CHATS = [
    "<|im_start|>user\nWhat is the capital of Italy?<|im_end|>\n<|im_start|>assistant\nThe capital of Italy is",
    "<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nWhat colour is the sky?<|im_end|>\n<|im_start|>assistant\nThe sky is",
    "<|im_start|>user\nIs 7 a prime number? Answer yes or no.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nTranslate to French: cat<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou answer in one word.<|im_end|>\n<|im_start|>user\nName a fruit.<|im_end|>\n<|im_start|>assistant\n",
]
PASSAGES = [
    "The museum opens at nine in the morning and closes at six in the evening. On Mondays it is closed all day. Children under "
    "ten pay nothing, students pay four euros, and everybody else pays eight euros. A student who visits the museum pays",
    "Passage one: The river Arno flows through Florence. Passage two: The river Tiber flows through Rome. Passage three: The "
    "river Po flows through Turin. Question: Which river flows through Rome? Answer: The river",
    "The red box holds a key. The blue box holds a coin. The green box holds a ring. Peter opens the blue box and finds a",
    "Maria lives in Lisbon and works in a bank. Her brother Paulo lives in Madrid and works in a school. The city where Maria lives is",
    "To make tea, first boil the water. Then warm the pot, put in one spoon of leaves for every cup, pour the water over them, "
    "and wait for about five",
    "Three friends ran a race along the beach on a sunny Sunday morning. Anna was faster than Ben, and Ben was faster than Carl, "
    "who had hurt his foot the day before and could hardly walk. Everybody clapped at the end. The winner of the race was",
    "The ship left the harbour at dawn with twelve sailors on board. For two days the sea was calm and the wind was light. On the "
    "third day black clouds came up from the west, the waves rose higher than the mast, and the captain shouted that all sails must "
    "come",
    "Our library lends books for three weeks, films for one week, and games for two days only. Whoever brings something back too late "
    "pays ten cents for every day. Lisa took home a book, a film and a game on the same morning. The one she must bring back first is "
    "the",
]
KINDS = {
    "fact": FACTS,
    "number": NUMBERS,
    "story": STORIES,
    "opinion": OPINIONS,
    "code": CODE,
    "language": OTHERS,
    "chat": CHATS,
    "passage": PASSAGES,
}
PROMPTS = [(kind, text) for kind, texts in KINDS.items() for text in texts]
SHORT = [  # for the first round, which tries every setting: few tokens
    "The capital of France is",
    "The opposite of hot is",
    "2 + 2 =",
    "The cat sat on the",
]
