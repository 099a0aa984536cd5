package cpu_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestConformance(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	kerneltest.Run(t, dev)
}

func TestConformance_OnAnAsynchronousStream(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	s, err := dev.NewStream()
	require.NoError(t, err)
	kerneltest.Run(t, dev, kerneltest.OnStream(s), kerneltest.Every(9))
}
