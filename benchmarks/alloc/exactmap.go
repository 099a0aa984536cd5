package main

import (
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

// exactMap is the baseline: freed blocks wait in a list by stream and size, under one mutex, and serve requests of exactly
// that size. It never splits, never merges, gives nothing back, counts nothing and checks nothing.
type exactMap struct {
	driver memory.Driver
	mu     sync.Mutex
	free   map[sizeClass][]device.Ptr
}

// sizeClass keeps streams apart: memory freed on one is in use there until the work on it is done.
type sizeClass struct {
	stream device.StreamID
	size   uint64
}

// mapBlock is the handle on a block.
type mapBlock struct {
	ptr   device.Ptr
	class sizeClass
}

func newExactMap(d memory.Driver) *exactMap {
	return &exactMap{driver: d, free: map[sizeClass][]device.Ptr{}}
}

// Alloc returns a block of bytes, rounded up to 512.
func (m *exactMap) Alloc(bytes uint64, s device.Stream) (mapBlock, error) {
	b := mapBlock{class: sizeClass{s.ID(), (bytes + 511) &^ 511}}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.free[b.class]
	if n := len(list); n > 0 {
		b.ptr = list[n-1]
		m.free[b.class] = list[:n-1]
		return b, nil
	}
	var err error
	b.ptr, err = m.driver.Malloc(b.class.size)
	return b, err
}

// Free puts a block back.
func (m *exactMap) Free(b mapBlock) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free[b.class] = append(m.free[b.class], b.ptr)
	return nil
}
