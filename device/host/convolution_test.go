package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
)

func TestExactConvolutions_AreOfADevice(t *testing.T) {
	a, b := host.New(), host.New()
	defer a.Close()
	defer b.Close()
	require.False(t, a.ExactConvolutions())
	a.SetExactConvolutions(true)
	require.True(t, a.ExactConvolutions())
	require.False(t, b.ExactConvolutions())
	(*host.Device)(nil).SetExactConvolutions(false)
}
