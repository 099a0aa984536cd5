package session

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/internal/stepplan"
)

// PlanFlag adds -plan.
func (c *Checked) PlanFlag(to *bool) { c.BoolVar(to, stepplan.Flag, false, stepplan.Usage) }

// BeginPlan begins a plan for the steps of the training to come, if there shall be one. It is called before anything is allocated.
func (s *Session) BeginPlan(wanted bool) (err error) {
	if wanted {
		s.plan, err = stepplan.Begin(s.Alloc)
	}
	return err
}

// Planned is an option for the graphs that training steps begin with. Without a plan, and when it has ended, it does nothing.
func (s *Session) Planned() autograd.Option { return autograd.WithPlan(s.plan) }

// EndPlan ends the plan, when the last training step is over, and notes how it did. Without one it does nothing.
func (s *Session) EndPlan() error {
	if s.plan == nil {
		return nil
	}
	s.Plan = stepplan.Of(s.plan)
	plan := s.plan
	s.plan = nil
	return plan.Close()
}
