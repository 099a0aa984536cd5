package nn

// LoadOption changes what Load, and the section of package checkpoint that Module makes, take.
type LoadOption func(*LoadSettings)

// LoadSettings are what LoadOptions change.
type LoadSettings struct {
	Partial   bool       // names may be missing on either side
	Unmatched *Unmatched // where those are listed, nil for nowhere

	Rename func(name string) string // from the names of the file to those of the model, nil for the same
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
