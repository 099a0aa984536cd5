package main

import (
	"fmt"
	"os"
	"sync"
)

// What is kept of a log: so much of its beginning, and of its end.
const (
	keptFirst = 6 << 20
	keptLast  = 1 << 20
)

// capped is a log that may be written to for ever. The beginning goes to the file at once; of what comes after that, close writes the end.
type capped struct {
	mu      sync.Mutex
	file    *os.File
	written int64
	err     error
	last    []byte // a ring
	at      int
	more    int64 // bytes that went into the ring
}

func newCapped(name string) (*capped, error) {
	f, err := os.Create(name)
	return &capped{file: f}, err
}

// Write never fails: a full disk is no reason for the program to end. That it was full, close says.
func (c *capped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(int64(len(b)), keptFirst-c.written)
	if n > 0 && c.err == nil {
		_, c.err = c.file.Write(b[:n])
	}
	c.written += n
	c.keep(b[n:])
	return len(b), nil
}

// keep puts the end of b into the ring. Caller holds c.mu.
func (c *capped) keep(b []byte) {
	c.more += int64(len(b))
	if len(b) > keptLast {
		b = b[len(b)-keptLast:]
	}
	if c.last == nil && len(b) > 0 {
		c.last = make([]byte, keptLast)
	}
	for len(b) > 0 {
		n := copy(c.last[c.at:], b)
		c.at = (c.at + n) % keptLast
		b = b[n:]
	}
}

// close writes the end of the log. What it cannot write is lost: the step's exit code is the truth.
func (c *capped) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.last[:c.at]
	if c.more > keptLast {
		_, _ = fmt.Fprintf(c.file, "\n... %d bytes are left out ...\n", c.more-keptLast)
	}
	if c.more >= keptLast { // the ring is full
		end = append(append([]byte(nil), c.last[c.at:]...), end...)
	}
	_, err := c.file.Write(end)
	if c.err == nil {
		c.err = err
	}
	_ = c.file.Close()
}
