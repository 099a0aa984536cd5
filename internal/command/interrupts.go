package command

import (
	"context"
	"os"
	"os/signal"
	"sync"
)

// Interrupted is the exit code of a program that Ctrl-C has ended: 128 and the number of SIGINT, as of shells.
const Interrupted = 130

// Interrupts makes a context that is done after Ctrl-C. A second one ends the process at once, by itself, with the code Interrupted: what a
// system does with the signal when nobody asks for it may be nothing, as in what a shell's script runs in the background. stop gives Ctrl-C back.
func Interrupts() (ctx context.Context, stop func()) {
	ctx, first := context.WithCancel(context.Background())
	pressed, over := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(pressed, os.Interrupt)
	go func() {
		for {
			select {
			case <-pressed:
			case <-over:
				return
			}
			if ctx.Err() != nil {
				os.Exit(Interrupted)
			}
			first()
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(pressed)
		close(over)
	})
}
