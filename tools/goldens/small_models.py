"""The families of the bundled models: how each one's tokenizer is trained and its model is shaped.

A family offers train_tokenizer(texts, directory, vocab_size), load_tokenizer(directory) and
new_model(vocab_size). `bos` and `eos` are the ids in front of a document and behind it, `special`
what the configuration says of them, `settings` what goes to tokenizer_config.json. chat(question)
gives the text before an answer and behind it; None where conversations are not trained.
"""

import json

import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

PRINTABLE = list(map(chr, range(33, 127)))
POSITIONS = 4096
BASE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "max_position_embeddings": POSITIONS, "tie_word_embeddings": True,
        "initializer_range": 0.04}


class TokenizerJson:
    """encode() of a list of texts, as sentencepiece has it, without any token added."""

    def __init__(self, directory):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))

    def encode(self, texts):
        return [e.ids for e in self.tokenizer.encode_batch(texts, add_special_tokens=False)]


class Llama:
    """Llama with a SentencePiece tokenizer.model."""

    bos, eos = [1], [2]
    special = {"bos_token_id": 1, "eos_token_id": 2}
    chat = None
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
                "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": False}

    @staticmethod
    def train_tokenizer(texts, directory, vocab_size):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line for text in texts for line in text.split("\n")),
            model_prefix=str(directory / "tokenizer"), model_type="bpe", vocab_size=vocab_size,
            byte_fallback=True, split_digits=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, add_dummy_prefix=True, character_coverage=1.0,
            required_chars="".join(PRINTABLE), unk_id=0, bos_id=1, eos_id=2, pad_id=-1,
            num_threads=2, minloglevel=2)
        (directory / "tokenizer.vocab").unlink()

    @staticmethod
    def load_tokenizer(directory):
        return sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))

    @classmethod
    def new_model(cls, vocab_size):
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=vocab_size, rms_norm_eps=1e-5, rope_theta=10000.0, **cls.special, **BASE))


class Qwen3:
    """Qwen3 with a byte-level BPE tokenizer.json and ChatML."""

    END_OF_TEXT, TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
    bos, eos = [], [0]
    special = {"bos_token_id": 0, "eos_token_id": [2, 0], "pad_token_id": 0}
    CHAT_TEMPLATE = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\\n"
        "{{ message['content'] }}<|im_end|>\\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}").replace("\\n", "\n")
    settings = {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "bos_token": None,
                "eos_token": END_OF_TURN, "pad_token": END_OF_TEXT, "unk_token": None,
                "add_prefix_space": False, "errors": "replace", "split_special_tokens": False,
                "chat_template": CHAT_TEMPLATE}
    # Contractions, words with one character in front that is no letter, single digits,
    # punctuation, line ends, blanks.
    SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
             r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

    @staticmethod
    def chat(question):
        return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"

    @classmethod
    def train_tokenizer(cls, texts, directory, vocab_size):
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(tokenizers.Regex(cls.SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
            vocab_size=vocab_size, show_progress=False,
            special_tokens=[cls.END_OF_TEXT, cls.TURN, cls.END_OF_TURN],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        tokenizer.save(str(directory / "tokenizer.json"))

    load_tokenizer = TokenizerJson

    @classmethod
    def new_model(cls, vocab_size):
        return Qwen3ForCausalLM(Qwen3Config(
            vocab_size=vocab_size, rms_norm_eps=1e-6, rope_theta=10000.0, **cls.special, **BASE))


class Gemma3:
    """Gemma 3 with a tokenizer.json of SentencePiece kind and a window of 32 positions."""

    NAMES = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    bos, eos = [2], [1]
    special = {"bos_token_id": 2, "eos_token_id": [1, 5], "pad_token_id": 0}
    chat = None
    settings = {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "add_eos_token": False,
                "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
                "unk_token": "<unk>", "spaces_between_special_tokens": False}

    @classmethod
    def train_tokenizer(cls, texts, directory, vocab_size):
        byte_names = [f"<0x{i:02X}>" for i in range(256)]
        tokenizer = tokenizers.Tokenizer(models.BPE(
            unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        # In training, words keep the space in front of them and digits stand alone. In use there is
        # nothing to split: no merge crosses these borders.
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split("\u2581", "merged_with_next"),
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.Digits(individual_digits=True)])
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", 2)])
        tokenizer.decoder = decoders.Sequence([
            decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
            vocab_size=vocab_size, show_progress=False, special_tokens=cls.NAMES + byte_names,
            initial_alphabet=["\u2581", "\n"] + PRINTABLE))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        written = json.loads(tokenizer.to_str())
        written["added_tokens"] = written["added_tokens"][:len(cls.NAMES)]
        (directory / "tokenizer.json").write_text(
            json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    load_tokenizer = TokenizerJson

    @classmethod
    def new_model(cls, vocab_size):
        base = BASE | {"num_key_value_heads": 1}
        return Gemma3ForCausalLM(Gemma3TextConfig(
            vocab_size=vocab_size, rms_norm_eps=1e-6, query_pre_attn_scalar=32, sliding_window=32,
            layer_types=["sliding_attention"] * 5 + ["full_attention"],
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0}},
            **cls.special, **base))


FAMILIES = {"llama": Llama, "qwen3": Qwen3, "gemma3": Gemma3}
