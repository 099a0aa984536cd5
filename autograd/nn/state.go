package nn

import (
	"context"
	"io"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/safetensors"
)

// Save writes the values of m's parameters and buffers, under the names of AllNamedState, in the safetensors format, which other frameworks read
// and which cannot carry code. What is shared is written under each of its names, as PyTorch's load_state_dict asks for. It copies one at a time to the host, each twice: the file begins with a checksum of all
// of it.
//
// The metadata say that names and layouts are PyTorch's ("format": "pt"), which programs of Hugging Face ask for, and have the checksum
// ("cistern.checksum", "cistern.crc32c").
func Save(w io.Writer, m Module) error {
	if why := isnil.Why("writer", w); why != "" {
		return argumentErr("Save", "%s", why)
	}
	if err := Check(m); err != nil {
		return err
	}
	var tensors []safetensors.Named
	taken := map[string]*autograd.Parameter{}
	for _, n := range AllNamedState(m) {
		t := n.Parameter.Tensor()
		if why := behind(n.Parameter); why != "" {
			return argumentErr("Save", "%s: %s", excerpt.Of(n.Name), why)
		}
		if t == nil {
			return errors.WithMessage(&autograd.ParameterError{Name: n.Name, Shape: n.Parameter.Shape(), Detail: unset(n.Parameter)}, "nn: Save: "+excerpt.Of(n.Name)+" has no value")
		}
		switch before := taken[n.Name]; before {
		case nil:
		case n.Parameter:
			continue
		default:
			return &NameError{Name: n.Name, Detail: "two parameters of the model have it"}
		}
		taken[n.Name] = n.Parameter
		tensors = append(tensors, safetensors.Named{Name: n.Name, Tensor: t})
	}
	err := safetensors.Write(context.Background(), w, tensors, map[string]string{"format": "pt"})
	var unfit *safetensors.Error
	if errors.As(err, &unfit) {
		return argumentErr("Save", "%s", unfit.Text())
	}
	return errors.Wrap(err, "nn: Save")
}
