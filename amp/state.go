package amp

// State is what a GradScaler remembers between iterations: what a program saves beside its model. The names in JSON are those
// of PyTorch's state_dict. The zero State is that of a disabled GradScaler, which has nothing to remember.
type State struct {
	Scale          float64 `json:"scale"`
	GrowthFactor   float64 `json:"growth_factor"`
	BackoffFactor  float64 `json:"backoff_factor"`
	GrowthInterval int     `json:"growth_interval"`
	GrowthTracker  int     `json:"_growth_tracker"` // steps without overflow since the scale was changed
}

// State waits for the device and returns what LoadState takes. Take it between iterations: before the first Scale, or after
// Update.
func (s *GradScaler) State() (State, error) {
	if !s.enabled {
		return State{}, nil
	}
	if s.err != nil {
		return State{}, s.err
	}
	scale, err := s.GetScale()
	if err != nil {
		return State{}, err
	}
	tracker := float64(s.initTracker)
	if s.tracker != nil {
		if tracker, err = s.tracker.Item(); err != nil {
			return State{}, err
		}
	}
	return State{
		Scale: scale, GrowthFactor: s.growthFactor, BackoffFactor: s.backoffFactor, GrowthInterval: s.growthInterval,
		GrowthTracker: int(tracker),
	}, nil
}

// LoadState goes on from a state that State returned, with its settings. A disabled GradScaler ignores it; the state of one is
// EmptyState.
func (s *GradScaler) LoadState(st State) error {
	if !s.enabled {
		return nil
	}
	if st == (State{}) {
		return &ScalerError{Method: "LoadState", Misuse: EmptyState}
	}
	if s.scale != nil {
		if err := s.scale.FillInPlace(st.Scale); err != nil {
			return err
		}
		if err := s.tracker.FillInPlace(float64(st.GrowthTracker)); err != nil {
			return err
		}
	}
	s.initScale, s.initTracker = st.Scale, int32(st.GrowthTracker)
	s.growthFactor, s.backoffFactor, s.growthInterval = st.GrowthFactor, st.BackoffFactor, st.GrowthInterval
	return nil
}
