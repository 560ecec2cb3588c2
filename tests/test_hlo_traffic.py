"""What hlo_traffic.py counts in small programs, written by hand as XLA prints them."""

import pytest
from hlo_traffic import GPUS, Kernel, Total, by_place, heaviest, read_kernels


def entry(instructions: str, computations: str = '') -> list[Kernel]:
    """Return the kernels of a program with these instructions."""
    return read_kernels(
        f'HloModule jit_step\n{computations}\nENTRY %main () -> () {{\n{instructions}\n}}\n'
    )


def one(instructions: str, computations: str = '') -> Kernel:
    """Return the only kernel of a program with these instructions."""
    (kernel,) = entry(instructions, computations)
    return kernel


def moved(kernel: Kernel) -> tuple[float, float]:
    """Return the bytes that a kernel reads and writes."""
    return kernel.read, kernel.written


def test_a_fusion_that_slices_reads_the_slice():
    slicing = """
%fused (p0: f32[100,8], p1: s32[]) -> f32[1,8] {
  %p0 = f32[100,8]{1,0} parameter(0)
  %p1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %doubled = f32[100,8]{1,0} add(%p0, %p0)
  ROOT %row = f32[1,8]{1,0} dynamic-slice(%doubled, %p1, %zero), dynamic_slice_sizes={1,8}
}"""
    program = """  %x = f32[100,8]{1,0} parameter(0)
  %k = s32[] parameter(1)
  ROOT %row.1 = f32[1,8]{1,0} fusion(%x, %k), kind=kLoop, calls=%fused"""
    assert moved(one(program, slicing)) == (2 * 32 + 4, 32)


def test_a_parameter_with_several_users_is_read_once():
    softmax = """
%fused (p0: bf16[10,8]) -> f32[10,8] {
  %p0 = bf16[10,8]{1,0} parameter(0)
  %wide = f32[10,8]{1,0} convert(%p0)
  %zero = f32[] constant(0)
  %sums = f32[10]{0} reduce(%wide, %zero), dimensions={1}, to_apply=%add
  %spread = f32[10,8]{1,0} broadcast(%sums), dimensions={0}
  ROOT %ratio = f32[10,8]{1,0} divide(%wide, %spread)
}"""
    program = """  %x = bf16[10,8]{1,0} parameter(0)
  ROOT %y = f32[10,8]{1,0} fusion(%x), kind=kInput, calls=%fused"""
    assert moved(one(program, softmax)) == (160, 320)


def test_a_fusion_writes_every_element_of_its_tuple():
    two = """
%fused (p0: f32[10,8]) -> (f32[10,8], f32[10]) {
  %p0 = f32[10,8]{1,0} parameter(0)
  %zero = f32[] constant(0)
  %square = f32[10,8]{1,0} multiply(%p0, %p0)
  %sums = f32[10]{0} reduce(%square, %zero), dimensions={1}, to_apply=%add
  ROOT %both = (f32[10,8]{1,0}, f32[10]{0}) tuple(%square, %sums)
}"""
    program = """  %x = f32[10,8]{1,0} parameter(0)
  %y = (f32[10,8]{1,0}, /*index=1*/f32[10]{0}) fusion(%x), kind=kInput, calls=%fused
  %a = f32[10,8]{1,0} get-tuple-element(%y), index=0
  ROOT %b = f32[10,8]{1,0} bitcast(%a)"""
    assert moved(one(program, two)) == (320, 320 + 40)


def test_an_update_in_place_reads_and_writes_the_update():
    program = """  %x = f32[100,8]{1,0} parameter(0)
  %row = f32[1,8]{1,0} parameter(1)
  %k = s32[] parameter(2)
  ROOT %y = f32[100,8]{1,0} dynamic-update-slice(%x, %row, %k, %k)"""
    assert moved(one(program)) == (32 + 4, 32)


def test_a_fused_update_writes_all_unless_it_overwrites_an_argument():
    fusion = """
%fused (p0: f32[1,8], p1: s32[], p2: f32[100,8]) -> f32[100,8] {{
  %p0 = f32[1,8]{{1,0}} parameter(0)
  %p1 = s32[] parameter(1)
  %p2 = f32[100,8]{{1,0}} parameter(2)
  %old = f32[100,8]{{1,0}} {old}(%p2)
  ROOT %new = f32[100,8]{{1,0}} dynamic-update-slice(%old, %p0, %p1, %p1)
}}"""
    program = """  %x = f32[1,8]{1,0} parameter(0)
  %k = s32[] parameter(1)
  %cache = f32[100,8]{1,0} parameter(2)
  ROOT %y = f32[100,8]{1,0} fusion(%x, %k, %cache), kind=kLoop, calls=%fused"""
    assert moved(one(program, fusion.format(old='bitcast'))) == (32 + 4, 32)
    assert moved(one(program, fusion.format(old='negate'))) == (32 + 4 + 3200, 3200)


LOOP = """
%body (arg: (s32[], f32[10])) -> (s32[], f32[10]) {
  %arg = (s32[], f32[10]{0}) parameter(0)
  %k = s32[] get-tuple-element(%arg), index=0
  %x = f32[10]{0} get-tuple-element(%arg), index=1
  %y = f32[10]{0} copy(%x)
  ROOT %next = (s32[], f32[10]{0}) tuple(%k, %y)
}
%condition (arg.1: (s32[], f32[10])) -> pred[] {
  %arg.1 = (s32[], f32[10]{0}) parameter(0)
  %k.1 = s32[] get-tuple-element(%arg.1), index=0
  ROOT %more = pred[] compare(%k.1, %k.1), direction=LT
}"""
WHILE = """  %start = (s32[], f32[10]{0}) parameter(0)
  ROOT %loop.1 = (s32[], f32[10]{0}) while(%start), condition=%condition, body=%body"""


def test_a_loop_counts_as_often_as_it_runs():
    trips = ', backend_config={"known_trip_count":{"n":"12"},"known_init_step":{"init":"0"}}'
    kernels = entry(WHILE + trips, LOOP)
    assert [(k.name, k.runs, k.loop) for k in kernels] == [('y', 12, '')]
    assert Total.of(kernels)[:3] == (12, 480, 480)


def test_one_pass_of_a_loop_of_unknown_length_counts():
    kernels = entry(WHILE, LOOP)
    assert [(k.name, k.runs, k.loop) for k in kernels] == [
        ('more', 1, 'loop.1'),
        ('y', 1, 'loop.1'),
    ]


def test_a_conditional_counts_as_its_heaviest_branch():
    branches = """
%small (p: f32[10]) -> f32[10] {
  %p = f32[10]{0} parameter(0)
  ROOT %a = f32[10]{0} copy(%p)
}
%large (p.1: f32[10]) -> f32[10] {
  %p.1 = f32[10]{0} parameter(0)
  %b = f32[10]{0} copy(%p.1)
  ROOT %c = f32[10]{0} copy(%b)
}"""
    program = """  %k = s32[] parameter(0)
  %x = f32[10]{0} parameter(1)
  ROOT %y = f32[10]{0} conditional(%k, %x, %x), branch_computations={%small, %large}"""
    assert [kernel.name for kernel in entry(program, branches)] == ['b', 'c']


def test_asynchronous_instructions_count_once():
    program = """  %x = f32[10]{0} parameter(0)
  %begun = (f32[10]{0}, f32[10]{0}, u32[]) copy-start(%x)
  %ended = f32[10]{0} copy-done(%begun)
  %sum = f32[10]{0} all-reduce-start(%ended), to_apply=%add
  ROOT %sum.1 = f32[10]{0} all-reduce-done(%sum)"""
    assert [(k.kind, *moved(k)) for k in entry(program)] == [
        ('copy', 40, 40),
        ('all-reduce', 40, 40),
    ]


def test_a_batched_dot_counts_its_products():
    program = """  %q = f32[4,10,8]{2,1,0} parameter(0)
  %k = f32[4,20,8]{2,1,0} parameter(1)
  ROOT %s = f32[4,10,20]{2,1,0} dot(%q, %k), lhs_batch_dims={0}, lhs_contracting_dims={2}, \
rhs_batch_dims={0}, rhs_contracting_dims={2}"""
    kernel = one(program)
    assert (kernel.flops, kernel.float32) == (2 * 4 * 10 * 20 * 8, True)
    assert moved(kernel) == (4 * (320 + 640), 4 * 800)


def test_a_fused_dot_counts_its_products():
    dot = """
%fused (p0: bf16[10,8], p1: bf16[8,6]) -> bf16[10,6] {
  %p0 = bf16[10,8]{1,0} parameter(0)
  %p1 = bf16[8,6]{1,0} parameter(1)
  ROOT %y = bf16[10,6]{1,0} dot(%p0, %p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    program = """  %a = bf16[10,8]{1,0} parameter(0)
  %b = bf16[8,6]{1,0} parameter(1)
  ROOT %c = bf16[10,6]{1,0} fusion(%a, %b), kind=kCustom, calls=%fused"""
    kernel = one(program, dot)
    assert (kernel.flops, kernel.float32) == (960, False)


def test_the_workspace_of_cublas_is_not_counted():
    program = """  %x = bf16[100,8]{1,0} parameter(0)
  %w = bf16[8,6]{1,0} parameter(1)
  ROOT %y = (bf16[100,6]{1,0}, s8[33554432]{0}) custom-call(%x, %w), \
custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"alpha_real":1,\
"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}"""
    kernel = one(program)
    assert (kernel.kind, kernel.flops) == ('__cublas$gemm', 2 * 100 * 8 * 6)
    assert moved(kernel) == (1600 + 96, 1200)


@pytest.mark.parametrize('name, products', [('Softmax', 2), ('SoftmaxBackward', 5)])
def test_attention_of_cudnn_counts_its_products(name, products):
    sizes = '{"element_type": "BF16", "dimensions": ["2", "4", "10", "20"]}'
    config = f'{{"fmha_scale": 0.125, "intermediate_tensor_shape": {sizes}}}'
    program = f"""  %q = bf16[2,10,4,8]{{3,2,1,0}} parameter(0)
  %k = bf16[2,20,4,8]{{3,2,1,0}} parameter(1)
  ROOT %y = (bf16[2,4,10,8]{{3,1,2,0}}, f32[2,4,10]{{2,1,0}}, u8[64]{{0}}) \
custom-call(%q, %k, %k), custom_call_target="__cudnn$fmha{name}", \
backend_config={{"cudnn_fmha_backend_config": {config}}}"""
    kernel = one(program)
    assert kernel.flops == products * 2 * (2 * 4 * 10 * 20) * 8
    assert moved(kernel) == (1280 + 2560, 1280 + 320)


def test_op_names_tell_the_place():
    names = [
        'jit(step)/jvp(Transformer)/decoder/layer_0/self_attention_residual/self_attention/exp',
        'jit(step)/jvp(Transformer)/decoder/layer_1/self_attention_residual/self_attention/exp',
        'jit(step)/transpose(jvp(Transformer))/decoder/layer_0/cross_attention_residual/norm/mul',
        'jit(step)/jvp()/while/body/dot_general',
        'jit(step)/jit(_where)/select_n',
    ]
    copies = ''.join(
        f'  %y.{k} = f32[{k}]{{0}} copy(%x), metadata={{op_name="{name}" stack_frame_id=1}}\n'
        for k, name in enumerate([*names, ''])
    )
    kernels = entry('  %x = f32[25]{0} parameter(0)\n' + copies)
    assert {place: total.kernels for place, total in by_place(kernels).items()} == {
        'self-attention': 2,
        'norms, dropout, residual sums': 1,
        'loss, vocabulary': 1,
        'update': 1,
        'no place': 1,
    }
    first = heaviest([k._replace(result='f32[]') for k in kernels], 1)
    assert [(what, total.kernels) for what, total in first] == [
        ('self-attention, forward, exp: copy to f32[], y.0', 2)
    ]


def test_a_fusion_without_a_name_has_that_of_an_instruction_inside():
    join = """
%fused (p0: f32[10]) -> f32[20] {
  %p0 = f32[10]{0} parameter(0)
  %x = f32[10]{0} negate(%p0), metadata={op_name="jit(step)/jvp(T)/layer_0/cross_attention/neg"}
  ROOT %twice = f32[20]{0} concatenate(%x, %x), dimensions={0}
}"""
    program = """  %a = f32[10]{0} parameter(0)
  ROOT %b = f32[20]{0} fusion(%a), kind=kLoop, calls=%fused, metadata={scheduling_name="b"}"""
    assert one(program, join).place == 'cross-attention'


def test_time_is_of_products_or_of_memory_and_of_the_launch():
    bandwidth_bound = Kernel('a', 'copy', '', '', 3.35e9, 3.35e9, 0.0, False, 2, '')
    assert bandwidth_bound.seconds(GPUS['H100']) == pytest.approx(2 * (2e-3 + 3e-6))
    product = Kernel('b', 'dot', '', '', 1.0, 1.0, 728e9, False, 1, '')
    assert product.seconds(GPUS['H100']) == pytest.approx(1e-3 + 3e-6)
    assert product._replace(float32=True).seconds(GPUS['H100']) == pytest.approx(2e-3 + 3e-6)


def test_a_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match='no line that begins with ENTRY'):
        read_kernels('HloModule jit_step')
