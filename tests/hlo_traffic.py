"""Reads what a compiled program moves and computes from its text, compiled.as_text().

A kernel reads each operand once, but of a slice only the slice, and writes its results; cuBLAS's
workspace is not counted. The kernels of a loop's body count as often as it runs. Too low: sorting
kernels, which pass over their data several times. Too high: what the L2 cache holds, and cuDNN's
attention with a causal mask, whose products are counted whole.
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# They launch nothing: the values are there, or another instruction has counted them.
_FREE = {
    'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'after-all', 'partition-id',
    'replica-id', 'opt-barrier', 'add-dependency',
}  # fmt: skip
_PLACES = {
    'self-attention': r'/self_attention(/|$)',
    'cross-attention': r'/cross_attention(/|$)',
    'feed-forward': r'/feed_forward(/|$)',
    'norms, dropout, residual sums': r'_residual/|/norm/',
    'embedding': r'\._embed|/positions/',
    'loss, vocabulary': r'^jit\(step\)/(?!.*Transformer).*jvp\(|_output_weights|PK,NK->PN',
    'update': r'^jit\(step\)/(?!.*jvp\()',
    'search': r'^jit\(search_batch\)/',
}


class GPU(NamedTuple):
    """What a GPU does at most.

    Attributes:
      flops: FLOP/s of dense bfloat16 products.
      bandwidth: bytes/s of its memory.
    """

    flops: float
    bandwidth: float


# From NVIDIA's data sheets of the SXM forms (A100: 80 GB). An H100 reached 728 of its 989 TFLOP/s
# in large products (launch/clusters.md); the others and the bandwidths were not measured.
_REACHED = 728 / 989
GPUS = {
    'H100': GPU(989e12 * _REACHED, 3.35e12),
    'H200': GPU(989e12 * _REACHED, 4.8e12),
    'A100': GPU(312e12 * _REACHED, 2.039e12),
}
LAUNCH_SECONDS = 3e-6  # from one kernel's end to the next one's start, without CUDA graphs


class Kernel(NamedTuple):
    """One instruction that launches a kernel, or several of a library.

    Attributes:
      name: its name.
      kind: its opcode, or the target of a custom call.
      result: type of the result.
      op_name: where JAX traced it.
      read: bytes that a run reads.
      written: bytes that a run writes.
      flops: of products, of a run.
      float32: whether the products' inputs are float32, which GPUs multiply half as fast.
      runs: how often it runs, in one pass of `loop` if there is one.
      loop: the loop of unknown trip count that it is in.
    """

    name: str
    kind: str
    result: str
    op_name: str
    read: float
    written: float
    flops: float
    float32: bool
    runs: int
    loop: str

    @property
    def place(self) -> str:
        """The place in the model, '' if its op_name says none."""
        return next((p for p, form in _PLACES.items() if re.search(form, self.op_name)), '')

    def seconds(self, gpu: GPU) -> float:
        """Return the modelled time of all runs: of products or memory, whichever takes longer."""
        products = self.flops * (2 if self.float32 else 1) / gpu.flops
        memory = (self.read + self.written) / gpu.bandwidth
        return self.runs * (max(products, memory) + LAUNCH_SECONDS)


class Total(NamedTuple):
    """Sums over kernels: their number, bytes, FLOP, and modelled seconds on each of `GPUS`."""

    kernels: int
    read: float
    written: float
    flops: float
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, kernels: Iterable[Kernel]) -> 'Total':
        """Sum kernels, each as often as it runs."""
        kernels = list(kernels)
        return cls(
            sum(k.runs for k in kernels),
            sum(k.runs * k.read for k in kernels),
            sum(k.runs * k.written for k in kernels),
            sum(k.runs * k.flops for k in kernels),
            tuple(sum(k.seconds(gpu) for k in kernels) for gpu in GPUS.values()),
        )


def read_kernels(text: str) -> list[Kernel]:
    """Return the kernels of a program, in the order of its text.

    Of a conditional, the branch that moves the most bytes counts.

    Args:
      text: an HLO module after optimisation, compiled.as_text().

    Raises:
      ValueError: if the text has no entry computation.
    """
    module = _Module(text)
    return list(module.kernels(module.entry, 1, ''))


def by_place(kernels: Iterable[Kernel]) -> dict[str, Total]:
    """Return the sums of each place in the model that has kernels, 'no place' last."""
    groups = {place: [] for place in [*_PLACES, '']}
    for kernel in kernels:
        groups[kernel.place].append(kernel)
    return {place or 'no place': Total.of(group) for place, group in groups.items() if group}


def heaviest(kernels: Iterable[Kernel], count: int) -> list[tuple[str, Total]]:
    """Return the groups of kernels that move the most bytes, each with what it does.

    The kernels of a group do the same in all layers: they have one place, direction, operation and
    type of result. The name of the first one tells where to look in the text.
    """
    groups = {}
    for kernel in kernels:
        # XLA joins the names of instructions that it merges.
        name = kernel.op_name.split(';')[-1]
        direction = 'backward' if 'transpose(jvp' in name else 'forward'
        operation = re.split(r'/layer_\d+/|_residual/|closed_call/|eval_jaxpr/', name)[-1]
        operation = operation.removeprefix(kernel.place.replace('-', '_') + '/')
        result = re.sub(r'{[^}]*}|/\*.*?\*/', '', kernel.result)
        what = f'{kernel.place or "no place"}, {direction}, {operation}: {kernel.kind} to {result}'
        groups.setdefault(what, []).append(kernel)
    totals = [(f'{what}, {group[0].name}', Total.of(group)) for what, group in groups.items()]
    return sorted(totals, key=lambda group: -group[1].read - group[1].written)[:count]


class _Instruction(NamedTuple):
    name: str
    type: str
    opcode: str
    operands: list[str]
    attributes: str
    is_root: bool

    def called(self, *keys: str) -> list[str]:
        """Return the computations that these attributes name."""
        found = re.findall(rf'\b(?:{"|".join(keys)})=({{[^}}]*}}|%?[\w.\-]+)', self.attributes)
        return [name for names in found for name in re.findall(r'[\w.\-]+', names)]

    def setting(self, form: str) -> str | None:
        """Return what the first group of a pattern matches in the attributes."""
        found = re.search(form, self.attributes)
        return found and found[1]

    @property
    def target(self) -> str:
        return self.setting(r'custom_call_target="([^"]*)"') or ''


class _Module:
    """The computations of an HLO module: instructions by name, operands before their users."""

    def __init__(self, text: str):
        self.computations, self.entry = {}, None
        for line in text.splitlines():
            if header := re.match(r'(ENTRY )?%?([\w.\-]+) .*-> .*{$', line):
                body = self.computations[header[2]] = {}
                self.entry = header[2] if header[1] else self.entry
            elif line[:1] == ' ' and (instruction := _parse(line)):
                body[instruction.name] = instruction
        if self.entry is None:
            raise ValueError(
                'the text has no line that begins with ENTRY: give compiled.as_text().'
            )

    def kernels(self, computation: str, runs: int, loop: str) -> Iterator[Kernel]:
        """Yield the kernels of a computation that runs so often, in the body of `loop`."""
        body = self.computations[computation]
        for one in body.values():
            if one.opcode in _FREE or one.opcode.endswith(('-done', '-update')):
                continue
            if one.opcode.endswith('-start'):
                # The other half of an asynchronous instruction has the type of the results.
                done = next((x.type for x in body.values() if one.name in x.operands), one.type)
                one = one._replace(opcode=one.opcode.removesuffix('-start'), type=done)
            if one.opcode == 'while':
                trips = one.setting(r'"known_trip_count": ?{"n": ?"(\d+)"')
                if trips:
                    yield from self.kernels(*one.called('body'), runs * int(trips), loop)
                else:
                    for name in one.called('body', 'condition'):
                        yield from self.kernels(name, 1, one.name)
            elif one.opcode == 'conditional':
                keys = 'branch_computations', 'true_computation', 'false_computation'
                branches = [list(self.kernels(b, runs, loop)) for b in one.called(*keys)]
                yield from max(branches, key=lambda branch: sum(Total.of(branch)[1:3]))
            elif one.opcode in ('call', 'async'):
                for name in one.called('to_apply', 'calls', 'called_computation'):
                    yield from self.kernels(name, runs, loop)
            else:
                yield self._kernel(body, one, runs, loop)

    def _kernel(self, body, one, runs, loop):
        if one.opcode == 'fusion':
            inner = self.computations[one.called('calls')[0]]
        else:
            inner = {
                name: body[name]._replace(opcode='parameter', operands=[]) for name in one.operands
            }
            inner[one.name] = one._replace(is_root=True)
        # XLA leaves some fusions without a name; what is inside has one.
        names = (x.setting(r'op_name="([^"]*)"') for x in [one, *reversed(inner.values())])
        flops, float32 = self._flops(body, one)
        return Kernel(
            name=one.name,
            kind=one.target or one.opcode,
            result=one.type,
            op_name=next(filter(None, names), ''),
            read=_reads(inner),
            written=_writes(inner),
            flops=flops,
            float32=float32,
            runs=runs,
            loop=loop,
        )

    def _flops(self, body, one):
        """Return the FLOP of an instruction's products, and whether their inputs are float32."""
        if one.opcode == 'fusion':
            inner = self.computations[one.called('calls')[0]]
            found = [self._flops(inner, x) for x in inner.values()]
            return sum(flops for flops, _ in found), any(wide for _, wide in found)
        if one.opcode == 'dot' or '$gemm' in one.target or '$matmul' in one.target:
            (left,) = _shapes(body[one.operands[0]].type)
            form = r'lhs_contracting_dim(?:ension)?s"?[=:] ?[{\[]([^}\]]*)'
            axes = re.findall(r'\d+', one.setting(form) or '')
            summed = math.prod(left.dims[int(axis)] for axis in axes)
            return 2 * _shapes(one.type)[0].size * summed, left.dtype == 'f32'
        if '$fmha' in one.target:
            # Scores and values forward; the scores again and four gradients backward.
            products = 5 if 'Backward' in one.target else 2
            form = r'"intermediate_tensor_shape": ?{[^}]*?"dimensions": ?\[([^\]]*)\]'
            scores = [int(size) for size in re.findall(r'\d+', one.setting(form))]
            (query,) = _shapes(body[one.operands[0]].type)
            head_size = query.size // math.prod(scores[:3])
            return products * 2 * math.prod(scores) * head_size, False
        return 0, False


class _Shape(NamedTuple):
    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> float:
        bits = re.search(r'\d+', self.dtype)  # f8e4m3fn has 8; pred, which says none, too
        return self.size * int(bits[0] if bits else 8) / 8


def _shapes(type_: str) -> list[_Shape]:
    """Return the arrays of a type."""
    found = re.findall(r'\b(pred|(?:bf|[suf]|c)\d\w*)\[([\d,]*)\]', type_)
    return [_Shape(dtype, tuple(map(int, filter(None, dims.split(','))))) for dtype, dims in found]


def _size(type_: str) -> int:
    return sum(shape.size for shape in _shapes(type_))


def _bytes(type_: str) -> float:
    return sum(shape.bytes for shape in _shapes(type_))


def _parse(line: str) -> _Instruction | None:
    head = re.match(r'\s+(ROOT )?%?([\w.\-]+) = ', line)
    if not head:
        return None
    rest = line[head.end() :]
    end = _closing(rest) if rest[0] == '(' else rest.index(' ')
    type_, rest = rest[:end], rest[end:].lstrip()
    opcode, rest = rest[: rest.index('(')], rest[rest.index('(') :]
    end = _closing(rest)
    operands = re.findall(r'%([\w.\-]+)', rest[:end])
    return _Instruction(head[2], type_, opcode, operands, rest[end:], bool(head[1]))


def _closing(text: str) -> int:
    """Return the index after the parenthesis that closes the first one."""
    depth = 0
    for found in re.finditer('[()]', text):
        depth += 1 if found[0] == '(' else -1
        if depth == 0:
            return found.end()
    raise ValueError(f'a parenthesis is not closed: {text[:80]}')


def _outputs(body: dict[str, _Instruction]) -> list[_Instruction]:
    """Return the instructions whose results a fusion writes."""
    (root,) = (one for one in body.values() if one.is_root)
    outputs = [body[name] for name in root.operands] if root.opcode == 'tuple' else [root]
    return [_origin(body, one) for one in outputs]


def _origin(body, one):
    while one.opcode == 'bitcast':
        one = body[one.operands[0]]
    return one


def _updates_in_place(body: dict[str, _Instruction]) -> dict[str, _Instruction]:
    """Return the update of each instruction that overwrites a part of an argument, by its name."""
    position = {'dynamic-update-slice': 1, 'scatter': -1}
    return {
        one.name: body[one.operands[position[one.opcode]]]
        for one in _outputs(body)
        if one.opcode in position and _origin(body, body[one.operands[0]]).opcode == 'parameter'
    }


def _writes(body: dict[str, _Instruction]) -> float:
    updates, written = _updates_in_place(body), 0.0
    for one in _outputs(body):
        if one.opcode == 'get-tuple-element':
            written += _bytes(one.type)
        elif one.target.startswith('__cu'):
            # The last result of cuBLAS and cuDNN, if it is bytes, is their workspace.
            shapes = _shapes(one.type)
            has_workspace = len(shapes) > 1 and shapes[-1].dtype in ('s8', 'u8')
            written += sum(shape.bytes for shape in shapes[: -1 if has_workspace else None])
        else:
            written += _bytes(updates.get(one.name, one).type)
    return written


def _reads(body: dict[str, _Instruction]) -> float:
    """Return the bytes of the parameters that a computation needs, each element once."""
    updates = _updates_in_place(body)
    needed, read = dict.fromkeys(body, 0.0), 0.0
    for one in reversed(body.values()):
        size = _size(one.type)
        wanted = size if one.is_root else min(size, needed[one.name])
        if one.opcode == 'parameter' and size:
            read += _bytes(one.type) * wanted / size
        for position, name in enumerate(one.operands):
            full = _size(body[name].type)
            slices = one.opcode in ('slice', 'dynamic-slice', 'gather') and position == 0
            if one.name in updates and position == 0:
                # A scatter may add to what was there; the other operation overwrites it.
                needed[name] += _size(updates[one.name].type) if one.opcode == 'scatter' else 0
            elif slices or one.opcode in ('broadcast', 'pad') or full == size:
                needed[name] += wanted
            elif one.opcode in ('reduce', 'concatenate'):
                needed[name] += full * wanted / size
            else:
                needed[name] += full
    return read
