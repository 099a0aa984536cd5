package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

func TestTrain_LearnsTheCircleAndLeavesNothing(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, train(&out))
	var loss float64
	_, last, _ := strings.Cut(out.String(), "epoch 10: ")
	_, err := fmt.Sscanf(last, "loss %f", &loss)
	require.NoError(t, err, "%s", out.String())
	require.Less(t, loss, 0.2)
	require.Contains(t, last, "| Allocated memory ")
	require.NoError(t, memory.Drop(device.Default()), "no block is in use")
}
