package cublas

import (
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// real is the cuBLAS of the machine. What these tests call works without a GPU.
func real(t *testing.T) *Library {
	t.Helper()
	l, err := Load(0)
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	t.Log(l.Path())
	return l
}

func (l *Library) call(f Func, args ...uintptr) Status {
	r, _, _ := purego.SyscallN(l.funcs[f], args...)
	return Status(uint32(r))
}

// create makes an object that destroy ends with the test.
func (l *Library) create(t *testing.T, f, destroy Func, args ...uintptr) uintptr {
	t.Helper()
	out := new(uintptr)
	require.Equal(t, Success, l.call(f, append([]uintptr{uintptr(unsafe.Pointer(out))}, args...)...), f)
	t.Cleanup(func() { require.Equal(t, Success, l.call(destroy, *out)) })
	return *out
}

// The library knows every attribute that we set, and that its value has the size that we say: any other size is refused.
func TestReal_AttributesHaveOurSizes(t *testing.T) {
	l := real(t)
	require.True(t, l.Lt())
	desc := l.create(t, LtMatmulDescCreate, LtMatmulDescDestroy, Compute32F, R32F)
	preference := l.create(t, LtMatmulPreferenceCreate, LtMatmulPreferenceDestroy)
	for _, a := range []struct {
		f              Func
		object, number uintptr
		size           uintptr
		value          uint64
	}{
		{LtMatmulDescSetAttribute, desc, DescTransA, 4, OpT}, {LtMatmulDescSetAttribute, desc, DescTransB, 4, OpN},
		{LtMatmulDescSetAttribute, desc, DescEpilogue, 4, EpilogueGELUAux | EpilogueBias},
		{LtMatmulDescSetAttribute, desc, DescEpilogue, 4, EpilogueDefault}, {LtMatmulDescSetAttribute, desc, DescEpilogue, 4, EpilogueGELU},
		{LtMatmulDescSetAttribute, desc, DescBiasPointer, 8, 4096}, {LtMatmulDescSetAttribute, desc, DescAuxPointer, 8, 4096},
		{LtMatmulDescSetAttribute, desc, DescAuxLD, 8, 64},
		{LtMatmulPreferenceSetAttribute, preference, PrefMaxWorkspace, 8, 32 << 20},
		{LtMatmulPreferenceSetAttribute, preference, PrefReductionMask, 4, ReductionNotOutput},
		{LtMatmulPreferenceSetAttribute, preference, PrefAlignmentA, 4, 16}, {LtMatmulPreferenceSetAttribute, preference, PrefAlignmentA + 1, 4, 16},
		{LtMatmulPreferenceSetAttribute, preference, PrefAlignmentA + 2, 4, 16}, {LtMatmulPreferenceSetAttribute, preference, PrefAlignmentA + 3, 4, 16},
	} {
		value := &[2]uint64{a.value}
		address := uintptr(unsafe.Pointer(value))
		require.Equal(t, Success, l.call(a.f, a.object, a.number, address, a.size), "%s %d", a.f, a.number)
		require.Equal(t, InvalidValue, l.call(a.f, a.object, a.number, address, 12-a.size), "%s %d", a.f, a.number)
	}
}

func TestReal_TypesMakeDescriptors(t *testing.T) {
	l := real(t)
	for _, d := range []uintptr{R32F, R64F, R16F, R16BF} {
		l.create(t, LtMatrixLayoutCreate, LtMatrixLayoutDestroy, d, 30, 20, 32)
	}
	for _, c := range [][2]uintptr{{Compute32F, R32F}, {Compute64F, R64F}, {Compute32FFastTF32, R32F}} {
		l.create(t, LtMatmulDescCreate, LtMatmulDescDestroy, c[0], c[1])
	}
}
