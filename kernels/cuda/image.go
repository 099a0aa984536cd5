package cuda

import (
	"fmt"
	"sync"
	"weak"

	"github.com/cistern-ml/cistern/internal/lzma"
	"github.com/cistern-ml/cistern/internal/ptx"
	"github.com/cistern-ml/cistern/kernels/cuda/internal/keep"
)

// cut are the images in use. They are large, are wanted when kernels are loaded, and go when the collector wants their memory.
var (
	cutMu sync.Mutex // held while a module is unpacked, tens of milliseconds: who wants the same one next finds it
	cut   = map[string]weak.Pointer[ptx.Image]{}
	kept  []*ptx.Image // of keep.Images
)

// imageOf is a module's image.
func imageOf(module string) (*ptx.Image, error) {
	cutMu.Lock()
	defer cutMu.Unlock()
	// A program loads the kernels of a module one after the other, in its first steps, and none later.
	if im := cut[module].Value(); im != nil {
		return im, nil
	}
	text, err := textOf(module)
	if err != nil {
		return nil, err
	}
	im, err := ptx.Read(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", module, err)
	}
	cut[module] = weak.Make(im)
	if keep.Images.Load() {
		kept = append(kept, im)
	}
	return im, nil
}

// textOf is the PTX of a module.
func textOf(module string) ([]byte, error) {
	packed, err := images.ReadFile("ptx/" + module + ptx.Packed)
	if err != nil {
		return nil, err
	}
	return lzma.Unpack(packed)
}
