package session

import (
	"context"
	"os"
	"os/signal"
	"sync"
)

// interrupts makes a context that is done after Ctrl-C. A second one ends the process, by itself: what a system does with the signal when
// nobody asks for it may be nothing, as in what a shell's script runs in the background. stop gives Ctrl-C back.
func interrupts() (ctx context.Context, stop func()) {
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
				os.Exit(InterruptedCode)
			}
			first()
		}
	}()
	return ctx, sync.OnceFunc(func() {
		signal.Stop(pressed)
		close(over)
	})
}

// Interruption is ErrInterrupted after Ctrl-C, else nil: what takes long asks between its batches.
func (s *Session) Interruption() error {
	if s.Interrupted() {
		return ErrInterrupted
	}
	return nil
}
