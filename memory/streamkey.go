package memory

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/rawbytes"
)

// streamKey is what a value of type device.Stream consists of. Streams with the same key are the same stream, as long as one of them is kept, which a binding does. The same
// stream has another key if it is a value that was put into an interface anew, and is found by its number then. Asking for that calls the stream, and comparing streams
// the runtime, for each request.
type streamKey struct{ kind, at uintptr }

func streamKeyOf(s device.Stream) (k streamKey) {
	k.kind, k.at = rawbytes.Words(s)
	return k
}

// place is where Caching.direct has the binding of a stream, unless another stream's has taken its place.
func (k streamKey) place() uintptr { return (k.at>>5 ^ k.at>>11) % directBindings }

// directBindings is how many bindings are found by the key of their stream.
const directBindings = 64
