package mpi

import (
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
)

// programs are what ranks can run.
var programs = map[string]func(c comm.Comm, args arguments) error{
	"place":   placeProgram,
	"conform": func(c comm.Comm, _ arguments) error { return commtest.Check(c) },
}

func TestMPI_Conforms(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		l.succeed(t, 2, "conform", arguments{TimeLimit: time.Minute})
		l.succeed(t, 4, "conform", arguments{TimeLimit: time.Minute, Check: true})
	})
}

// Small pieces stand for large counts: what does not fit in one message, or in scratch memory, goes in several.
func TestMPI_ConformsInPieces(t *testing.T) {
	withLaunchers(t, func(t *testing.T, l launcher) {
		l.succeed(t, 3, "conform", arguments{TimeLimit: time.Minute, Pieces: 4096})
	})
}
