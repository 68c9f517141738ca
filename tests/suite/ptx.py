"""Runs compiled PTX on the CPU, a block at a time, all its threads in step: as much of the language as our kernels use.

What a GPU would refuse or get wrong unseen raises PtxError: an address outside the given buffers or not aligned to its
access, a write to an input, a shuffle from a lane that is elsewhere, a barrier that not every thread reaches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_ENTRY = re.compile(r"\.visible \.entry (\w+)\(\s*(.*?)\)\s*(?:\.\w+[^{]*)?\{(.*?)\n\}", re.S)
_PARAMETER = re.compile(r"\.param (?:\.align \d+ )?\.([a-z]\d+) (\w+)(?:\[(\d+)\])?")
_LINE = re.compile(r"(?:@(!?)(%p\d+) )?([\w.:]+)\s*(.*)")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_WIDTH = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}
_TYPES = {
    "f32": np.float32, "s32": np.int32, "u32": np.uint32, "b32": np.uint32, "s64": np.int64, "u64": np.uint64,
    "b64": np.uint64, "b16": np.uint16, "u16": np.uint16, "pred": np.bool_,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}


class PtxError(Exception):
    """What the kernel did wrong, or an instruction that is not known here."""


@dataclass(frozen=True)
class Instruction:
    text: str
    unless: str
    predicate: str
    opcode: tuple[str, ...]
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Kernel:
    """One entry function: parameters by name with their bytes, instructions, and where labels point."""

    name: str
    parameters: dict[str, int]
    instructions: list[Instruction]
    labels: dict[str, int]


def parse(source: str) -> dict[str, Kernel]:
    """The entry functions of a PTX module by name."""
    found = {}
    for name, parameters, body in _ENTRY.findall(source):
        sizes = {p: int(n or int(kind[1:]) // 8) for kind, p, n in _PARAMETER.findall(parameters)}
        instructions: list[Instruction] = []
        labels: dict[str, int] = {}
        for line in re.split(r"[;\n]", re.sub(r"//.*", "", body)):
            text = line.strip()
            if text.endswith(":"):
                labels[text[:-1]] = len(instructions)
            elif text and not text.startswith("."):
                unless, predicate, opcode, rest = _LINE.fullmatch(text).groups()  # type: ignore[union-attr]
                given = tuple(opcode.split(".")), tuple(_OPERAND.findall(rest))
                instructions.append(Instruction(text, unless or "", predicate or "", *given))
        found[name] = Kernel(name, sizes, instructions, labels)
    return found


@dataclass
class Memory:
    """Global memory: (address, bytes, writable) of every tensor that the kernel may touch."""

    buffers: list[tuple[int, Array, bool]] = field(default_factory=list)

    def find(self, addresses: Array, width: int, writing: bool) -> tuple[Array, Array]:
        first = int(addresses.min())
        for base, data, writable in self.buffers:
            if base <= first < base + data.size:
                if int(addresses.max()) + width > base + data.size:
                    raise PtxError(f"an access {int(addresses.max()) + width - base - data.size} bytes past a tensor")
                if writing and not writable:
                    raise PtxError("a write to an input")
                return data, addresses - np.uint64(base)
        raise PtxError(f"address {first:#x} is in no tensor")


class Block:
    """The threads of one block: registers hold one value a thread, as unsigned bits."""

    def __init__(
        self, kernel: Kernel, memory: Memory, arguments: Mapping[str, bytes], block: int, threads: int,
        shared_bytes: int,
    ) -> None:
        self.kernel, self.memory, self.arguments, self.threads = kernel, memory, arguments, threads
        self.shared = np.full(shared_bytes, 0xA5, np.uint8)
        lanes = np.arange(threads, dtype=np.uint32)
        self.registers: dict[str, Array] = {
            "%tid.x": lanes, "%laneid": lanes % 32, "%ctaid.x": np.full(threads, block, np.uint32),
            "%ntid.x": np.full(threads, threads, np.uint32),
        }
        self.at = np.zeros(threads, np.int64)

    def run(self) -> None:
        """Always the threads that are furthest behind, so that those that parted meet again."""
        end, waiting = len(self.kernel.instructions), np.zeros(self.threads, bool)
        while True:
            ready = ~waiting & (self.at < end)
            if not ready.any():
                if not waiting.any():
                    return
                if (self.at[waiting] != self.at[waiting][0]).any() or (self.at >= end).any():
                    raise PtxError("a barrier that not every thread reaches")
                waiting[:] = False
                continue
            place = int(self.at[ready].min())
            active = ready & (self.at == place)
            instruction = self.kernel.instructions[place]
            self.at[active] += 1
            try:
                if self._step(instruction, active):
                    waiting |= active
            except PtxError as error:
                raise PtxError(f"{instruction.text}: {error}") from None

    def _step(self, instruction: Instruction, active: Array) -> bool:
        """True at a barrier."""
        opcode, operands = instruction.opcode, instruction.operands
        if instruction.predicate:
            holds = self.registers[instruction.predicate]
            active = active & (~holds if instruction.unless else holds)
            if not active.any():
                return False
        match opcode[0]:
            case "bra":
                self.at[active] = self.kernel.labels[operands[0]]
            case "ret":
                self.at[active] = len(self.kernel.instructions)
            case "bar":
                return True
            case "ld":
                self._load(opcode, operands, active)
            case "st":
                self._store(opcode, operands, active)
            case "mov" if "{" in instruction.text:
                self._pack(operands, 8 * _WIDTH[opcode[-1]] // 2, active)
            case "shfl":
                self._shuffle(opcode, operands, active)
            case _ if not operands:
                raise PtxError("an instruction that is not known here")
            case _:
                self._write(operands[0], self._compute(opcode, operands[1:]), active)
        return False

    def _value(self, operand: str, kind: str) -> Array:
        dtype = np.dtype(_TYPES[kind])
        if operand.startswith("%"):
            return self.registers[operand].astype(f"u{dtype.itemsize}", copy=False).view(dtype) if kind != "pred" else (
                self.registers[operand]
            )
        if operand.startswith("0f"):
            return np.full(self.threads, int(operand[2:], 16), np.uint32).view(dtype)
        if "dynamic_shmem" in operand:
            return np.zeros(self.threads, dtype)
        bits = int(operand, 0) & ((1 << 8 * dtype.itemsize) - 1)
        return np.full(self.threads, bits, f"u{dtype.itemsize}").view(dtype)

    def _write(self, register: str, value: Array, active: Array) -> None:
        if value.dtype != np.bool_:
            value = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}")
        if register not in self.registers or active.all():
            self.registers[register] = value.copy()
        else:
            self.registers[register] = np.where(active, value, self.registers[register])

    def _compute(self, opcode: tuple[str, ...], operands: tuple[str, ...]) -> Array:
        name, kind = opcode[0], opcode[-1]
        if name == "setp":
            left, right = (self._value(operand, kind) for operand in operands)
            return np.asarray(_COMPARE[opcode[1]](left, right))
        if name == "selp":
            return np.where(self.registers[operands[2]], *(self._value(o, kind) for o in operands[:2]))
        if name == "cvt":
            return self._convert(opcode, operands)
        if name in ("shl", "shr"):
            value = self._value(operands[0], kind)
            count = self._value(operands[1], "u32").astype(value.dtype)
            return value << count if name == "shl" else value >> count
        if name in ("mul", "mad") and opcode[1] == "wide":
            wide = kind.replace("32", "64")
            product = np.multiply(*(self._value(o, kind).astype(_TYPES[wide]) for o in operands[:2]))
            return product if name == "mul" else product + self._value(operands[2], wide)
        if kind == "f32x2":
            pairs = [np.ascontiguousarray(self._value(operand, "b64")).view(np.float32) for operand in operands]
            return np.ascontiguousarray(self._arithmetic(opcode, pairs)).view(np.uint64)
        if kind == "bf16" and name == "fma":  # the factors, not what is added
            halves = [self._value(operand, "b16").astype(np.uint32) for operand in operands[:2]]
            factors = [(half << 16).view(np.float32) for half in halves]
            return self._arithmetic(opcode, [*factors, self._value(operands[2], "f32")])
        if kind not in _TYPES:
            raise PtxError("an instruction that is not known here")
        return self._arithmetic(opcode, [self._value(operand, kind) for operand in operands])

    @staticmethod
    def _arithmetic(opcode: tuple[str, ...], values: list[Array]) -> Array:
        with np.errstate(all="ignore"):
            match opcode[0]:
                case "mov" | "cvta":
                    return values[0]
                case "add":
                    return values[0] + values[1]
                case "sub":
                    return values[0] - values[1]
                case "mul":
                    return values[0] * values[1]
                case "mad":
                    return values[0] * values[1] + values[2]
                case "fma":
                    wide = values[0].astype(np.float64) * values[1] + values[2].astype(np.float64)
                    return wide.astype(np.float32)
                case "div":
                    return values[0] / values[1]
                case "neg":
                    return -values[0]
                case "abs":
                    return np.abs(values[0])
                case "max" | "min":
                    quiet = {"max": np.fmax, "min": np.fmin}
                    return ({"max": np.maximum, "min": np.minimum} if "NaN" in opcode else quiet)[opcode[0]](*values)
                case "rcp":
                    return np.float32(1) / values[0]
                case "rsqrt":
                    return np.float32(1) / np.sqrt(values[0])
                case "ex2":
                    return np.exp2(values[0])
                case "and" | "or" | "xor":
                    return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[opcode[0]](*values)
                case "not":
                    return ~values[0]
        raise PtxError("an instruction that is not known here")

    def _convert(self, opcode: tuple[str, ...], operands: tuple[str, ...]) -> Array:
        to, source = opcode[-2:]
        if (to, source) == ("f32", "bf16"):
            return (self._value(operands[0], "b16").astype(np.uint32) << 16).view(np.float32)
        if source == "f32" and "bf16" in to and "rn" in opcode:
            halves = [_bfloat16(self._value(operand, "b32")) for operand in operands]
            return halves[0] if to == "bf16" else (halves[0].astype(np.uint32) << 16) | halves[1]
        if (to, source) == ("f32", "f32") and opcode[1] in ("sat", "f32"):
            value = self._value(operands[0], "f32")
            return np.clip(np.nan_to_num(value, nan=0.0), 0, 1).astype(np.float32) if "sat" in opcode else value
        if to in _TYPES and source in _TYPES and "f32" not in (to, source):
            return self._value(operands[0], source).astype(_TYPES[to])
        raise PtxError("a conversion that is not known here")

    def _pack(self, operands: tuple[str, ...], half: int, active: Array) -> None:
        """Between one register and its two halves of so many bits, low half first."""
        if operands[0].startswith("{"):
            whole = self._value(operands[1], f"b{2 * half}")
            for n, register in enumerate(_registers(operands[0])):
                if register != "_":
                    self._write(register, (whole >> whole.dtype.type(half * n)).astype(f"u{half // 8}"), active)
        else:
            low, high = (self._value(r, f"b{half}").astype(f"u{half // 4}") for r in _registers(operands[1]))
            self._write(operands[0], low | high << high.dtype.type(half), active)

    def _shuffle(self, opcode: tuple[str, ...], operands: tuple[str, ...], active: Array) -> None:
        if (opcode[2], operands[3], operands[4]) not in {("bfly", "31", "-1"), ("idx", "31", "-1")}:
            raise PtxError("a shuffle that is not known here")
        lanes = np.arange(self.threads)
        other = self._value(operands[2], "u32").astype(np.int64)
        source = lanes ^ other if opcode[2] == "bfly" else lanes // 32 * 32 + other % 32
        if not active[source[active]].all():
            raise PtxError("a shuffle from a lane that is elsewhere")
        self._write(operands[0], self._value(operands[1], "b32")[source], active)

    def _place(
        self, operand: str, opcode: tuple[str, ...], active: Array, writing: bool
    ) -> tuple[Array, Array, int, int]:
        """(memory, the active threads' offsets in it, bytes a register, registers)."""
        width, count = _WIDTH["b" + opcode[-1][1:]], next((int(o[1:]) for o in opcode if o in ("v2", "v4")), 1)
        base, _, offset = operand.strip("[]").partition("+")
        if opcode[1] == "param":
            data = np.frombuffer(self.arguments[base], np.uint8)
            return data, np.full(int(active.sum()), int(offset or 0), np.uint64), width, count
        kind = "u64" if opcode[1] == "global" else "u32"
        addresses = self._value(base, kind)[active].astype(np.uint64) + np.uint64(int(offset or 0))
        if (addresses % np.uint64(width * count)).any():
            raise PtxError(f"an access of {width * count} bytes that is not aligned to them")
        if opcode[1] == "global":
            return *self.memory.find(addresses, width * count, writing), width, count
        if opcode[1] != "shared" or int(addresses.max()) + width * count > self.shared.size:
            raise PtxError(f"outside the {self.shared.size} bytes of shared memory")
        return self.shared, addresses, width, count

    def _load(self, opcode: tuple[str, ...], operands: tuple[str, ...], active: Array) -> None:
        data, offsets, width, count = self._place(operands[1], opcode, active, writing=False)
        for n, register in enumerate(_registers(operands[0])[:count]):
            found = data[(offsets.astype(np.int64) + n * width)[:, None] + np.arange(width)]
            value = np.zeros(self.threads, f"u{width}")
            value[active] = np.ascontiguousarray(found).view(f"u{width}")[:, 0]
            self._write(register, value, active)

    def _store(self, opcode: tuple[str, ...], operands: tuple[str, ...], active: Array) -> None:
        data, offsets, width, count = self._place(operands[0], opcode, active, writing=True)
        for n, register in enumerate(_registers(operands[1])[:count]):
            value = np.ascontiguousarray(self._value(register, f"b{8 * width}")[active])
            at = (offsets.astype(np.int64) + n * width)[:, None] + np.arange(width)
            data[at] = value.view(np.uint8).reshape(-1, width)


def _registers(operand: str) -> list[str]:
    return [name.strip() for name in operand.strip("{}").split(",")]


def _bfloat16(bits: Array) -> Array:
    """Single to bfloat16, to nearest even, as bits."""
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint64(16)
    nan = np.isnan(bits.view(np.float32))
    return np.where(nan, 0x7FFF, rounded).astype(np.uint16)
