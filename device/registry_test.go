package device

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// kindOf is an Opener whose devices do nothing but have a name.
type kindOf struct {
	kind  Kind
	count int
	err   error
}

type named struct {
	Device
	spec Spec
}

func (k kindOf) Count() int { return k.count }
func (k kindOf) Open(spec Spec) (Device, error) {
	if k.err != nil {
		return nil, k.err
	}
	return named{spec: spec}, nil
}

// ending is an Opener that can be shut down.
type ending struct {
	kindOf
	times *int
}

func (e ending) Shutdown() error {
	*e.times++
	return e.err
}

// register makes openers the only registered kinds until the end of the test.
func register(t *testing.T, openers ...kindOf) {
	t.Helper()
	registry.Lock()
	before := registry.openers
	registry.openers = nil
	registry.Unlock()
	t.Cleanup(func() {
		registry.Lock()
		defer registry.Unlock()
		registry.openers = before
	})
	for _, o := range openers {
		Register(o.kind, o)
	}
}

func TestOpen_GivesTheParsedSpecificationToItsKind(t *testing.T) {
	register(t, kindOf{kind: Host, count: 1}, kindOf{kind: Sim, count: 1}, kindOf{kind: CUDA, count: 2})
	for _, spec := range []Spec{{Kind: Host}, {Kind: Sim, Capacity: 3 << 30}, {Kind: CUDA, Index: 1}} {
		d, err := Open(spec.String())
		require.NoError(t, err)
		require.Equal(t, named{spec: spec}, d)
	}
}

func TestOpen_OfAKindThatIsNotLinkedNamesTheImport(t *testing.T) {
	register(t)
	_, err := Open("cuda:1")
	require.ErrorIs(t, err, ErrUnavailable)
	require.EqualError(t, err, "cuda:1: Open: device unavailable "+
		`(this program was built without it; add: import _ "github.com/cistern-ml/cistern/device/cuda")`)
	require.Zero(t, Count(CUDA))
}

func TestOpen_OfNonsenseIsAParseError(t *testing.T) {
	_, err := Open("gpu")
	var parse *ParseError
	require.ErrorAs(t, err, &parse)
}

func TestRegister_TwiceIsAProgrammingError(t *testing.T) {
	register(t, kindOf{kind: Host})
	require.PanicsWithValue(t, "device: Register called twice for host", func() { Register(Host, kindOf{}) })
}

func TestShutdown_AsksEachKindThatCan(t *testing.T) {
	register(t, kindOf{kind: Host, count: 1})
	require.NoError(t, Shutdown())
	refused, others := errors.New("refused"), 0
	Register(Sim, ending{times: &others})
	require.NoError(t, Shutdown())
	Register(CUDA, ending{kindOf: kindOf{err: refused}, times: &others})
	require.ErrorIs(t, Shutdown(), refused)
	require.Equal(t, 3, others)
}

func TestDefault_PrefersAGPUThatIsThere(t *testing.T) {
	t.Run("without the package", func(t *testing.T) {
		register(t, kindOf{kind: Host, count: 1})
		require.Equal(t, named{spec: Spec{Kind: Host}}, Default())
	})
	t.Run("without a GPU", func(t *testing.T) {
		register(t, kindOf{kind: Host, count: 1}, kindOf{kind: CUDA, count: 0})
		require.Equal(t, named{spec: Spec{Kind: Host}}, Default())
	})
	t.Run("with a GPU", func(t *testing.T) {
		register(t, kindOf{kind: Host, count: 1}, kindOf{kind: CUDA, count: 1})
		require.Equal(t, named{spec: Spec{Kind: CUDA}}, Default())
		require.Equal(t, 1, Count(CUDA))
	})
}

func TestDefault_OfAGPUThatCannotBeOpenedTellsTheReasonAtEachCall(t *testing.T) {
	reason := errors.New("driver too old")
	register(t, kindOf{kind: Host, count: 1}, kindOf{kind: CUDA, count: 1, err: reason})
	d := Default()
	require.Equal(t, ID{Kind: CUDA}, d.ID())
	requireUnavailable(t, d, reason)
}

func TestDefault_WithoutAnyDeviceNamesTheImportAtEachCall(t *testing.T) {
	register(t)
	d := Default()
	require.Equal(t, ID{Kind: Host}, d.ID())
	requireUnavailable(t, d, ErrUnavailable)
	_, err := d.Malloc(1)
	require.ErrorContains(t, err, "device/host")
}

// requireUnavailable makes each call of a device that could not be opened.
func requireUnavailable(t *testing.T, d Device, reason error) {
	t.Helper()
	ctx := context.Background()
	_, mallocErr := d.Malloc(1)
	_, infoErr := d.MemInfo()
	_, streamErr := d.NewStream()
	_, eventErr := d.NewEvent()
	s := d.DefaultStream()
	require.Equal(t, d, s.Device())
	require.Zero(t, s.ID())
	_, doneErr := s.Done()
	for _, err := range []error{
		mallocErr, infoErr, streamErr, eventErr, doneErr, d.Free(1), d.Synchronize(ctx),
		s.CopyToDevice(1, []byte{1}), s.CopyToHost([]byte{1}, 1), s.Copy(1, 2, 1), s.Fill(1, 0, 1),
		s.Record(nil), s.Wait(nil), s.Synchronize(ctx), s.Close(),
	} {
		require.ErrorIs(t, err, reason)
	}
	require.NoError(t, d.Close())
	require.Zero(t, d.Properties().TotalMemory)
}
