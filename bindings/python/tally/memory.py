# SPDX-License-Identifier: Apache-2.0
"""Where arrays have their elements: numpy's by __array_interface__, those of torch and others by DLPack. No copies."""
from __future__ import annotations

import ctypes as c
from typing import Any, NamedTuple, Optional

INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = range(10)
BOOL, COMPLEX64, COMPLEX128 = 12, 13, 14
BYTES = {INT8: 1, UINT8: 1, INT32: 4, UINT32: 4, INT64: 8, UINT64: 8, FLOAT16: 2, FLOAT32: 4, FLOAT64: 8, BFLOAT16: 2, BOOL: 1,
         COMPLEX64: 8, COMPLEX128: 16}
_NUMPY = {"|i1": INT8, "|u1": UINT8, "<i4": INT32, "<u4": UINT32, "<i8": INT64, "<u8": UINT64, "<f2": FLOAT16, "<f4": FLOAT32,
          "<f8": FLOAT64, "|b1": BOOL, "<c8": COMPLEX64, "<c16": COMPLEX128}
# (kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLComplex 5, kDLBool 6; bits)
_DLPACK = {(0, 8): INT8, (1, 8): UINT8, (0, 32): INT32, (1, 32): UINT32, (0, 64): INT64, (1, 64): UINT64, (2, 16): FLOAT16,
           (2, 32): FLOAT32, (2, 64): FLOAT64, (4, 16): BFLOAT16, (5, 64): COMPLEX64, (5, 128): COMPLEX128, (6, 8): BOOL}
_CPU, _CUDA_HOST = 1, 3  # DLDeviceType


class View(NamedTuple):
    """Elements in memory. `keep` owns them."""
    address: Optional[int]
    elements: int
    dtype: int
    keep: Any


class _DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


_capsule_pointer = c.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [c.py_object, c.c_char_p], c.c_void_p


def view(array: Any, what: str, is_written: bool = False) -> View:
    """The elements of an array. `what` names it in errors. TypeError: not an array, or of a type that tally does not have;
    ValueError: not contiguous, not on the CPU, or read-only and to be written."""
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _numpy_view(array, interface, what, is_written)
    if hasattr(array, "__dlpack__"):
        return _dlpack_view(array, what)
    raise TypeError(f"tally: {what} is a {type(array).__name__}: a numpy array or a tensor (DLPack) is needed")


def _numpy_view(array: Any, interface: dict[str, Any], what: str, is_written: bool) -> View:
    address, is_read_only = interface["data"]
    dtype = _NUMPY.get(interface["typestr"])
    if dtype is None and str(getattr(array, "dtype", "")) == "bfloat16":
        dtype = BFLOAT16
    if dtype is None:
        raise TypeError(f"tally: {what} has elements of type {getattr(array, 'dtype', interface['typestr'])}, which tally does not "
                        "have (tally.h has its types; big-endian ones are none of them)")
    count = 1
    for length in interface["shape"]:
        count *= length
    if interface.get("strides") is not None and count > 1:
        raise ValueError(f"tally: {what} is not contiguous (C order): numpy.ascontiguousarray makes a copy that is")
    if is_written and is_read_only:
        raise ValueError(f"tally: {what} is read-only, and the result goes there")
    return View(address, count, dtype, array)


def _dlpack_view(array: Any, what: str) -> View:
    device = array.__dlpack_device__()[0]
    if device not in (_CPU, _CUDA_HOST):
        raise ValueError(f"tally: {what} is on a device (DLPack type {int(device)}): tally sums what is in the host's memory, so "
                         "copy it there (tensor.cpu())")
    try:
        capsule = array.__dlpack__()
    except (BufferError, RuntimeError) as error:
        raise ValueError(f"tally: {what}: {error}") from error
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    dtype = _DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(f"tally: {what} has elements of type {getattr(array, 'dtype', '?')}, which tally does not have")
    count = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[i] > 1 and tensor.strides[i] != count:
            raise ValueError(f"tally: {what} is not contiguous: tensor.contiguous() makes a copy that is")
        count *= tensor.shape[i]
    return View((tensor.data or 0) + tensor.byte_offset or None, count, dtype, (array, capsule))


def numpy_at(address: int, count: int, dtype: int) -> Any:
    """A numpy array of what lies there."""
    import numpy
    names = {number: name[1:] for name, number in _NUMPY.items()} | {BFLOAT16: "u2"}
    return numpy.ndarray((count,), names[dtype], memoryview((c.c_char * (count * BYTES[dtype])).from_address(address)).cast("B"))


def empty(like: Any, shape: tuple[int, ...]) -> Any:
    """A new array of the kind and type of `like`."""
    if hasattr(like, "new_empty"):  # torch
        return like.new_empty(shape)
    import numpy
    return numpy.empty(shape, like.dtype)
