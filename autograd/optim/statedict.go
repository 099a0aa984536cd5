package optim

import (
	"encoding/json"
	"fmt"

	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/tensor"
)

// StateDict is what an optimizer has learned, in the form of PyTorch's state_dict: parameters have numbers, counted through the
// groups.
type StateDict struct {
	Optimizer string             // the optimizer's name, as in "AdamW"; empty in a dict that does not say it, as PyTorch's do not
	State     map[int]ParamState // of the parameters that have a state
	Groups    []GroupState
}

// decoupledKey says in a group whether it is AdamW's or Adam's, as in PyTorch since 2.7.
const decoupledKey = "decoupled_weight_decay"

// ParamState is what an optimizer keeps for a parameter, under PyTorch's names: "exp_avg", "momentum_buffer", ...
type ParamState struct {
	Step    int // steps taken, 0 for optimizers that do not count them (SGD, Lion)
	Tensors map[string]*tensor.Tensor
}

// GroupState is the settings of a group, under PyTorch's names ("lr", "betas", ...), and the numbers of its parameters ("params").
// It goes through JSON unchanged.
type GroupState map[string]any

// field is a setting under its name: one number, several, or a flag.
type field struct {
	key     string
	numbers []*float64
	flag    *bool
	whole   *int
}

func number(key string, v *float64) field { return field{key: key, numbers: []*float64{v}} }
func truth(key string, v *bool) field     { return field{key: key, flag: v} }
func whole(key string, v *int) field      { return field{key: key, whole: v} }
func betas(s *Settings) field             { return field{key: "betas", numbers: []*float64{&s.Beta1, &s.Beta2}} }

// value is what a GroupState has under the field's key.
func (f *field) value() any {
	switch {
	case f.flag != nil:
		return *f.flag
	case f.whole != nil:
		return *f.whole
	case len(f.numbers) == 1:
		return *f.numbers[0]
	}
	all := make([]float64, len(f.numbers))
	for i, v := range f.numbers {
		all[i] = *v
	}
	return all
}

// set is the reverse of value, also for a value that has been through JSON.
func (f *field) set(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if f.flag != nil {
		return setTo(text, f.flag)
	}
	if f.whole != nil {
		return setTo(text, f.whole)
	}
	if len(f.numbers) == 1 {
		return setTo(text, f.numbers[0])
	}
	var all []json.RawMessage
	if json.Unmarshal(text, &all) != nil {
		return fmt.Errorf("%s, want a list of %d numbers", excerpt.Of(string(text)), len(f.numbers))
	}
	if len(all) != len(f.numbers) {
		return fmt.Errorf("%d numbers, want %d", len(all), len(f.numbers))
	}
	for i, v := range all {
		if err := setTo(v, f.numbers[i]); err != nil {
			return err
		}
	}
	return nil
}

// setTo reads JSON. null, which json leaves things as they are for, is an error.
func setTo[T bool | float64 | int](text []byte, to *T) error {
	var v *T
	if err := json.Unmarshal(text, &v); err != nil || v == nil {
		kind := "a number"
		if _, flag := any(*to).(bool); flag {
			kind = "true or false"
		} else if _, whole := any(*to).(int); whole {
			kind = "a whole number"
		}
		return fmt.Errorf("%s, want %s", excerpt.Of(string(text)), kind)
	}
	*to = *v
	return nil
}

// StateDict returns settings and state. The tensors are the optimizer's own: they change with the next step, and must not be
// released. Where steps are counted on the device it waits for them, which can fail.
func (o *Grouped) StateDict() (StateDict, error) {
	if err := o.Err(); err != nil {
		return StateDict{}, err
	}
	d := StateDict{Optimizer: o.name, State: map[int]ParamState{}}
	counted, err := o.readCounters()
	if err != nil {
		return StateDict{}, fmt.Errorf("optim: %s: StateDict: %w", o.name, err)
	}
	n := 0
	for _, g := range o.groups {
		numbers := make([]int, len(g.params))
		kept := o.method.buffers(&g.settings)
		for i, p := range g.params {
			numbers[i] = n
			if s := o.states[p]; s != nil && (o.method.counts() || len(s.buffers) > 0) {
				if steps := counted.of(s); steps > 0 {
					d.State[n] = s.dict(kept, o.method.counts(), steps)
				}
			}
			n++
		}
		group := GroupState{"params": numbers}
		for _, f := range o.method.fields(&g.settings) {
			group[f.key] = f.value()
		}
		if a, ok := o.method.(adam); ok {
			group[decoupledKey] = a.decoupled
		}
		if g.initial != nil {
			group["initial_lr"] = *g.initial
		}
		d.Groups = append(d.Groups, group)
	}
	return d, nil
}

func (s *state) dict(kept []buffer, counts bool, steps int) ParamState {
	d := ParamState{Tensors: map[string]*tensor.Tensor{}}
	if counts {
		d.Step = steps
	}
	for i, b := range kept {
		d.Tensors[b.name] = s.buffers[i]
	}
	return d
}
