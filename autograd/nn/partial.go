package nn

// LoadOption changes what Load, and the section of package checkpoint that Module makes, take.
type LoadOption func(*LoadSettings)

// LoadSettings are what LoadOptions change.
type LoadSettings struct {
	Partial   bool       // names may be missing on either side
	Unmatched *Unmatched // where those are listed, nil for nowhere
}

// Unmatched is what a file and a model do not have of each other.
type Unmatched struct {
	Missing    []string // in the model, not in the file, in the order of the model: they keep their values
	Unexpected []string // in the file, not in the model, in the order of the file
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
