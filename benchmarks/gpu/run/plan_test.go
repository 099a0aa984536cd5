package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A call is for machines that are lent for minutes: what it promises to run must fit.
func TestCalls_FitIntoEightMinutes(t *testing.T) {
	const unpacking = 15 * time.Second
	for _, c := range calls {
		p, err := planFor([]string{c.name})
		require.NoError(t, err)
		require.Len(t, p, len(c.steps), "no step twice")
		require.LessOrEqual(t, p.reserved()+unpacking, 8*time.Minute, c.name)
	}
}

func TestCalls_BeginWithWhatTellsMost(t *testing.T) {
	require.Equal(t, []string{"facts", "smoke", "load", "test-device_cuda", "test-memory", "test-kernels_cuda", "test-tensor", "test-autograd", "test-amp",
		"gemm", "gpt", "profile"}, calls[0].steps)
	for _, c := range calls {
		require.Equal(t, "facts", c.steps[0], c.name)
	}
}

func TestSteps_HaveOneNameAndRoom(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range steps {
		require.False(t, seen[s.name], s.name)
		seen[s.name] = true
		require.GreaterOrEqual(t, s.reserve, 5*least, s.name)
		require.GreaterOrEqual(t, s.most, s.reserve, s.name)
	}
	for _, name := range []string{"test-device_cuda", "test-memory", "test-kernels_cuda", "test-tensor", "test-autograd", "test-amp"} {
		require.Equal(t, time.Minute, find(name).most, name)
	}
}

func TestPlan_KeepsTheReserveOfEachStepWhateverTheOthersTake(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var p plan
		for range 1 + rng.IntN(12) {
			reserve := time.Duration(1+rng.IntN(100)) * time.Second
			p = append(p, &step{reserve: reserve, most: reserve + time.Duration(rng.IntN(200))*time.Second})
		}
		total := p.reserved() + time.Duration(rng.IntN(100))*time.Second
		left := total
		for i, s := range p {
			limit := p.limit(i, left)
			require.GreaterOrEqual(t, limit, s.reserve)
			require.LessOrEqual(t, limit, s.most)
			if rng.IntN(2) == 0 {
				left -= limit // it hung
			} else {
				left -= time.Duration(rng.Float64() * float64(limit))
			}
		}
		require.GreaterOrEqual(t, left, time.Duration(0))
	}
}

func TestPlan_GivesTheFirstOnesTheirTimeIfThereIsTooLittle(t *testing.T) {
	p := plan{{reserve: 40, most: 60}, {reserve: 40, most: 60}, {reserve: 40, most: 60}}
	require.Equal(t, time.Duration(40), p.limit(0, 50))
	require.Equal(t, time.Duration(10), p.limit(1, 10))
	require.Equal(t, time.Duration(0), p.limit(2, -3))
}

func TestPlanFor_UnfoldsCallsAndRefusesOthers(t *testing.T) {
	p, err := planFor([]string{"smoke", "two", "facts", "smoke"})
	require.NoError(t, err)
	require.Equal(t, "smoke", p[0].name)
	require.Equal(t, "facts", p[1].name)
	require.Len(t, p, 1+len(calls[1].steps))
	_, err = planFor([]string{"smok"})
	require.ErrorContains(t, err, `no step or call "smok"`)
}

func TestRun_PrintsThePlanAndRefusesWrongFlags(t *testing.T) {
	var out, errs bytes.Buffer
	require.Zero(t, run(context.Background(), []string{"-n", "one"}, &out, &errs))
	require.Regexp(t, `(?m)^test-amp +40 s +60 s +\d+ s$`, out.String())
	require.Regexp(t, `(?m)^all +\d+ s of 470 s$`, out.String())
	for _, args := range [][]string{{"-what"}, {"what"}, {"-t", "9"}, {"smoke", "-what"}, {"-device", "gpu"}} {
		require.Equal(t, 2, run(context.Background(), args, &out, &errs), args)
	}
	errs.Reset()
	require.Zero(t, run(context.Background(), []string{"-h"}, &out, &errs))
	require.Contains(t, errs.String(), "sanitizer-memcheck")
	for _, s := range steps {
		require.Contains(t, errs.String(), s.name)
		require.NotEmpty(t, s.about)
	}
}
