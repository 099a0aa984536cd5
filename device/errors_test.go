package device

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestError_SaysDeviceCallAndValues(t *testing.T) {
	err := &Error{Device: ID{Kind: CUDA, Index: 1}, Call: "Malloc", Detail: "5 bytes wanted", Err: ErrOutOfMemory}
	require.EqualError(t, err, "cuda:1: Malloc: out of memory (5 bytes wanted)")
	err.Detail = ""
	require.EqualError(t, err, "cuda:1: Malloc: out of memory")
	require.ErrorIs(t, err, ErrOutOfMemory)
	require.NotErrorIs(t, err, ErrClosed)
}

func TestLaunchError_IsBothALaunchErrorAndItsCause(t *testing.T) {
	cause := errors.New("class 12 is outside 0..9")
	err := LaunchError(ID{Kind: Host}, "NLL", cause)
	require.ErrorIs(t, err, ErrLaunch)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, ErrInvalidValue)
	require.EqualError(t, err, "host: NLL: operation failed on the device: class 12 is outside 0..9")
}

func TestPanicError_KeepsAnErrorThatWasPanicked(t *testing.T) {
	cause := errors.New("boom")
	require.ErrorIs(t, &PanicError{Value: cause}, cause)
	require.EqualError(t, &PanicError{Value: 7}, "panic: 7")
	require.NoError(t, errors.Unwrap(&PanicError{Value: 7}))
	require.Contains(t, (&PanicError{}).Error(), "Goexit")
}
