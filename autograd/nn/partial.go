package nn

// LoadOption changes what Load, and the section of package checkpoint that Module makes, take.
type LoadOption func(*LoadSettings)

// LoadSettings are what LoadOptions change.
type LoadSettings struct {
	Partial   bool       // names may be missing on either side
	Unmatched *Unmatched // where those are listed, nil for nowhere

	Rename     func(name string) string // from the names of the file to those of the model, nil for the same
	Transposed func(name string) bool   // which matrices the file, whose names these are, has transposed; nil for none
	Only       func(name string) bool   // which names of the model are loaded, nil for all
}

// Unmatched is what a file and a model do not have of each other.
type Unmatched struct {
	Missing    []string // in the model, not in the file, in the order of the model: they keep their values
	Unexpected []string // in the file, not in the model, in the order of the file, as Rename calls them
}

// Partial loads what file and model have both, and lists the rest in left, which may be nil, when all is loaded (PyTorch's strict=False,
// which returns missing_keys and unexpected_keys). Parameters that the file has not keep their values. Shapes must still be the same, and
// a file of which nothing is in the model is a *MismatchError: where all names differ, as by a prefix, nobody wants it to be in silence.
//
//	var left nn.Unmatched
//	err := nn.Load(f, model, nn.Partial(&left))
func Partial(left *Unmatched) LoadOption {
	return func(s *LoadSettings) { s.Partial, s.Unmatched = true, left }
}

// Rename loads each tensor of the file as the parameter or buffer that f names, given the tensor's name in the file: PyTorch programs change
// the keys of a state dict so. Tensors for which f returns "" are left out, as if the file did not have them, and two that f gives one name
// are a *MismatchError. f is called once for each tensor, before anything changes. Without Partial what is left must be the model's.
//
//	err := nn.Load(f, model, nn.Rename(func(name string) string {
//		rest, ours := strings.CutPrefix(name, "backbone.")
//		if !ours {
//			return ""
//		}
//		return rest
//	}))
//
// With it, Load reads a model from the file of package checkpoint, too, where names begin with that of their section ("model.0.weight").
func Rename(f func(name string) string) LoadOption {
	return func(s *LoadSettings) { s.Rename = f }
}

// Transposed loads those of the file's matrices transposed for whose names, in the file, f returns true: the weights of GPT-2's layers,
// for one, are stored as [in, out], and those of Linear are [out, in]. A tensor of which f says so and that is no matrix is a
// *MismatchError. They are turned in host memory.
//
//	err := nn.LoadFile(f, model, nn.Transposed(func(name string) bool { return strings.HasSuffix(name, ".c_attn.weight") }))
func Transposed(f func(name string) bool) LoadOption {
	return func(s *LoadSettings) { s.Transposed = f }
}

// Only loads what of the model f names, as if neither the model nor the file had anything else: adapters over a model that stays as it is.
// What is left must be in both, unless there is Partial as well. An f that names nothing of the model is a *MismatchError.
//
//	err := nn.Load(f, model, nn.Only(func(name string) bool { return strings.Contains(name, ".lora_") }))
func Only(f func(name string) bool) LoadOption {
	return func(s *LoadSettings) { s.Only = f }
}
