package nn

import (
	"slices"
	"strings"
)

// given is what the options of a layer in the making have in common: their names, so that a layer can refuse those that it does not
// have. An option that is ignored is a mistake that nobody finds.
type given struct{ options []string }

func (g *given) note(option string) { g.options = append(g.options, option) }

// What several layers have.
const (
	biased     = "WeightInit NoBias BiasInit"
	normalises = biased + " Eps Affine"
)

// refuseForeign refuses the first option that is not in own, a list of names.
func (b *Base) refuseForeign(g *given, layer, own string) {
	has := strings.Fields(own)
	for _, option := range g.options {
		if !slices.Contains(has, option) {
			b.mistaken(argumentErr(layer, "it has no option %s", option))
		}
	}
}

// refuseProbability refuses what is not in 0..1.
func (b *Base) refuseProbability(layer string, p float64) {
	if err := probability(layer, p); err != nil {
		b.mistaken(err)
	}
}

// probability is the error of what is not in 0..1, NaN included.
func probability(layer string, p float64) error {
	if p >= 0 && p <= 1 {
		return nil
	}
	return argumentErr(layer, "the probability of dropout is %v; it must be in 0..1", p)
}
