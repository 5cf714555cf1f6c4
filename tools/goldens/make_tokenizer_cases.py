#!/usr/bin/env python3
"""Trains small tokenizers in the styles of well-known models, and writes what the reference
libraries do with them to tests/data/tokenizers: ids of random texts, texts of random ids. Also
the characters of each class in patterns.

Needs tokenizers, transformers and sentencepiece. Usage: make_tokenizer_cases.py [OUTPUT]
"""
import io
import json
import pathlib
import random
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers
from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTPUT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/data/tokenizers"
NUM_TEXTS, NUM_DECODED = 500, 200
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN3 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
MARK = "\u2581"

CORPUS = [json.loads(line)["prompt"] for line in open(ROOT / "datasets/prompts.jsonl")] + [
    "It's what they'd said: we'll go, I'm sure you've seen that she isn't there.",
    "for (int i = 0; i < 10; ++i) { total += values[i] * 3.14; }  // sums\n\n\treturn total;\n",
    "Die Bären schliefen über Nacht, und der Fluß floß weiter. Où est l'élève? Ça va très bien.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.", "これは短い文章です。東京は大きい。",
    "这是一个简短的句子。北京很大，上海也很大。", "한국어 문장도 하나 있습니다.", "هذه جملة قصيرة بالعربية",
    "यह एक छोटा वाक्य है।", "1999 2024 3.14159 1,000,000 100% $42", "\U0001F600\U0001F680\u2764\uFE0F ok!"
] * 20


def special(*contents):
    return [AddedToken(content, special=True, normalized=False) for content in contents]


def byte_level(split, normalizer, specials):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizer
    byte_level_only = pre.ByteLevel(add_prefix_space=False, use_regex=split is None)
    tokenizer.pre_tokenizer = byte_level_only if split is None else pre.Sequence(
        [pre.Split(Regex(split), "isolated"), byte_level_only])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens(special(*specials))
    return tokenizer


def byte_fallback(normalizer, pre_tokenizer, decoder, specials):
    """Specials, bytes, characters and merges, as SentencePiece orders them."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.decoder = decoder
    trainer = trainers.BpeTrainer(vocab_size=1100, special_tokens=specials + BYTES,
                                  limit_alphabet=120, max_token_length=10, show_progress=False)
    tokenizer.train_from_iterator([line for text in CORPUS for line in text.splitlines()], trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] not in BYTES]
    return Tokenizer.from_str(json.dumps(state))


def with_bos(tokenizer, bos):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1",
        special_tokens=[(bos, tokenizer.token_to_id(bos))])
    return tokenizer


def llama3():
    specials = ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]
    tokenizer = with_bos(byte_level(LLAMA3, None, specials), specials[0])
    state = json.loads(tokenizer.to_str())
    state["model"]["ignore_merges"] = True
    state["model"]["merges"] = [" ".join(pair) for pair in state["model"]["merges"]]
    # Words that are tokens, and that no merge makes.
    last = max(token["id"] for token in state["added_tokens"]) + 1
    for token in state["added_tokens"]:
        token["id"] += 2
    for step in [state["post_processor"]["special_tokens"][specials[0]]]:
        step["ids"] = [step["ids"][0] + 2]
    first = last - len(specials)
    state["model"]["vocab"].update({"\u0120abcdefgh": first, "\u0120\u0120!": first + 1})
    return Tokenizer.from_str(json.dumps(state))


def qwen3():
    tokenizer = byte_level(QWEN3, normalizers.NFC(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("<think>", "</think>")])
    return tokenizer


def gpt2():
    tokenizer = byte_level(None, None, [])
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=True)])
    return tokenizer


def gemma3():
    tokenizer = byte_fallback(
        normalizers.Replace(" ", MARK), pre.Split(" ", "merged_with_previous"),
        decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]),
        ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("\n\n", "\n\n\n", MARK * 2, "<b>")])
    return with_bos(tokenizer, "<bos>")


def spm_decoder():
    return decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                              decoders.Strip(" ", 1, 0)])


def mistral():
    return with_bos(byte_fallback(
        normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), None,
        spm_decoder(), ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]), "<s>")


def metaspace():
    return with_bos(byte_fallback(
        None, pre.Metaspace(MARK, prepend_scheme="first", split=False), spm_decoder(),
        ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]), "<s>")


def odd():
    """What the others leave out."""
    tokenizer = byte_level(None, normalizers.NFC(), ["<|endoftext|>"])
    tokenizer.pre_tokenizer = pre.Sequence([
        pre.Digits(individual_digits=True), pre.Split("-", "merged_with_next"),
        pre.Split(Regex(r"[!?]"), "contiguous"), pre.Split(Regex(r"_"), "removed"),
        pre.ByteLevel(add_prefix_space=True, use_regex=True)])
    tokenizer.add_tokens([
        AddedToken("<left>", lstrip=True, normalized=False),
        AddedToken("<right>", rstrip=True, normalized=False),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("e\u0301t\u00e9", normalized=True), AddedToken("<a b>", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>",
        special_tokens=[("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))])
    return tokenizer


SPELT = ["<|begin_of_text|>", "<|eot_id|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>",
         "</think>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<s>", "</s>", "<unk>", "[INST]",
         "[/INST]", "<left>", " <left>", "<right>  ", "word", " word ", "words", "e\u0301te\u0301",
         "<a b>", "<0x0A>", "<|im_", "\n\n\n\n", MARK, "<b>", " abcdefgh", "  !"]


def fragment(draw):
    def some(letters, longest):
        return "".join(draw.choice(letters) for _ in range(draw.randint(1, longest)))
    kind = draw.randrange(11)
    if kind == 0:
        return some(" \t\n\r\u00a0\u3000\u180e\u2028\u0085\u200b\u001c\u000b", 3)
    if kind == 1:
        return " " * draw.randint(1, 5)
    if kind == 2:
        return some("0123456789", 7)
    if kind == 3:
        return draw.choice(["'s", "'S", "'t", "'RE", "'ve", "'LL", "'d", "'m", "'\u017f", "'x", "\u2019s"])
    if kind == 4:
        return some("!?.,;:#$%&()[]{}<>|/\\+-*=_~`^\"'@", 4)
    if kind == 5:
        return some("eaou\u0300\u0301\u0323\u0327\u0308\u0345\u05b0\u093c\u1100\u1161\u11a8\u212b\uac00\u0f71\u1dfa", 5)
    if kind == 6:
        return draw.choice(["\U0001F600", "\U0001F468\u200d\U0001F469\u200d\U0001F467", "\u2764\ufe0f",
                            "\U0001F1E9\U0001F1EA", "\U0001F44D\U0001F3FD"])
    if kind == 7:
        return draw.choice(SPELT)
    if kind == 8:
        below = draw.choice([0x80, 0x800, 0x3000, 0x10000, 0x11000, 0x20000, 0x32000, 0x110000])
        return "".join(chr(c) for c in (draw.randrange(below) for _ in range(draw.randint(1, 3)))
                       if not 0xD800 <= c < 0xE000)
    words = draw.choice(CORPUS[:300] + CORPUS[-11:]).split(" ")
    at = draw.randrange(len(words))
    return draw.choice(["", " "]) + " ".join(words[at:at + draw.randint(1, 4)])


def write(name, tokenizer, encode, texts, num_ids):
    """`tokenizer` decodes; a completion stands in the middle of a text: between two letters a."""
    draw = random.Random(name)
    letter = tokenizer.token_to_id("a")
    lines = []
    for _ in range(NUM_DECODED):
        ids = [draw.randrange(num_ids) for _ in range(draw.randint(1, 12))]
        if draw.random() < 0.5:  # more bytes, broken and whole
            low = tokenizer.token_to_id("<0x00>") or 0
            ids += [low + byte for byte in draw.choice(
                [b"\xe2\x82\xac", b"\xe2\x82", b"\xff\xfe", b"ab\xc3\xa9", b"\xf0\x9f\x98\x80\xf0"])]
        text = tokenizer.decode([letter] + ids + [letter], skip_special_tokens=True)
        assert text[0] == "a" and text[-1] == "a", text
        lines.append(json.dumps({"ids": ids, "text": text[1:-1]}))
    (OUTPUT / f"{name}.decoded.jsonl").write_text("\n".join(lines) + "\n")
    (OUTPUT / f"{name}.ids").write_text(
        "\n".join(" ".join(map(str, encode(text))) for text in texts) + "\n")


def write_classes():
    """The characters of the classes that patterns are made of: PATTERN FIRST-LAST ..."""
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    lines = []
    for name in "L M N P S Z Lu Ll Lt Lm Lo Nd Mn".split() + ["s"]:
        pattern = "\\s" if name == "s" else f"\\p{{{name}}}"
        split = pre.Split(Regex(pattern), "removed")
        ranges = []
        for begin in range(0, len(characters), 4096):
            some = characters[begin:begin + 4096]
            others = set("".join(piece for piece, _ in split.pre_tokenize_str("".join(some))))
            for character in map(ord, filter(lambda c: c not in others, some)):
                if ranges and ranges[-1][1] == character - 1:
                    ranges[-1][1] = character
                else:
                    ranges.append([character, character])
        lines.append(" ".join([pattern] + [f"{a:X}-{b:X}" if a != b else f"{a:X}" for a, b in ranges]))
    (OUTPUT / "classes.txt").write_text("\n".join(lines) + "\n")


def main():
    write_classes()
    draw = random.Random(1)
    texts = ["", " ", "a"]
    while len(texts) < NUM_TEXTS:
        texts.append("".join(fragment(draw) for _ in range(draw.randint(1, 9))))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)) + "\n")
    for make in (llama3, qwen3, gpt2, gemma3, mistral, metaspace, odd):
        tokenizer = make()
        folder = OUTPUT / make.__name__
        folder.mkdir(exist_ok=True)
        (folder / "tokenizer.json").write_text(
            json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")))
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}\n')
        loaded = AutoTokenizer.from_pretrained(str(folder))
        for text in texts:
            assert loaded.encode(text) == tokenizer.encode(text).ids, (make.__name__, text)
        write(make.__name__, tokenizer, lambda text: tokenizer.encode(text).ids, texts,
              tokenizer.get_vocab_size())
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in CORPUS for line in text.splitlines() if line),
        model_writer=model, vocab_size=1000, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        character_coverage=0.99, minloglevel=2)
    folder = OUTPUT / "spm"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    vocabulary = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    decoding = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    decoding.decoder = spm_decoder()
    decoding.add_special_tokens(special("<unk>", "<s>", "</s>"))
    plain = [t for t in texts if not any(s in t for s in ("<unk>", "<s>", "</s>"))]
    (OUTPUT / "spm.texts.jsonl").write_text("\n".join(map(json.dumps, plain)) + "\n")
    write("spm", decoding, lambda text: [1] + processor.encode(text), plain, len(vocabulary))


if __name__ == "__main__":
    main()
