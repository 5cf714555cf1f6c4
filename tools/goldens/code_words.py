"""Codes of quantized checkpoints in words of 32 bits. Needs numpy."""
import numpy

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # rows of a word, from its lowest bits on


def packed(codes, bits, axis, order=None):
    """Codes without a sign as int32 words along an axis, the first of `order` in the lowest bits."""
    codes = numpy.moveaxis(numpy.asarray(codes).astype(numpy.uint32), axis, 0)
    per_word = 32 // bits
    codes = numpy.concatenate([codes, numpy.zeros((-len(codes) % per_word,) + codes.shape[1:], numpy.uint32)])
    words = numpy.zeros((len(codes) // per_word,) + codes.shape[1:], numpy.uint32)
    for place, row in enumerate(order or range(per_word)):
        words |= codes[row::per_word] << numpy.uint32(bits * place)
    return numpy.ascontiguousarray(numpy.moveaxis(words.view(numpy.int32), 0, axis))
