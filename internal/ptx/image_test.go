package ptx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImage_IsOneKernelAndTheVariablesThatItNames(t *testing.T) {
	im, err := Read(`// a comment
.version 7.0
.target sm_80
.address_size 64

	// .globl	first
.weak .shared .align 16 .b8 tile[1024];
.global .align 4 .b8 digits[4] = {1, 2, 3, 4};
.visible .entry first(
	.param .u64 first_param_0
)
.maxntid 256, 1, 1
{
	{ .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd1; }
	mov.u64 %rd1, tile;
	ret;
}
.weak .shared .align 16 .b8 other[8];
.visible .entry second(
)
{
	mov.u64 %rd1, digits;
	mov.u64 %rd2, other;
	ret;
}
`)
	require.NoError(t, err)
	const head = ".version 7.0\n.target sm_80\n.address_size 64\n"
	first, err := im.Kernel("first")
	require.NoError(t, err)
	require.Equal(t, head+".weak .shared .align 16 .b8 tile[1024];\n", string(first[:strings.Index(string(first), entryStart)]))
	require.Contains(t, string(first), "mov.u64 %rd1, tile;")
	require.NotContains(t, string(first), "second")
	second, err := im.Kernel("second")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(second), head+".global .align 4 .b8 digits[4] = {1, 2, 3, 4};\n.weak .shared .align 16 .b8 other[8];\n.visible .entry second("))
	require.Equal(t, []string{"first", "second"}, im.Names())
	_, err = im.Kernel("third")
	require.ErrorContains(t, err, "no kernel third")
}

func TestImage_RefusesWhatIsNoModule(t *testing.T) {
	_, err := Read(".version 7.0\n")
	require.ErrorContains(t, err, "no kernels")
	_, err = Read(".version 7.0\n.visible .entry k(\n{ ret;")
	require.ErrorContains(t, err, "without an end")
}
