// Package memtest helps to test allocators, and programs that use them.
//
// NoLeaks is for programs: one line at the top of a test, and the test fails if blocks are still held at its end.
//
//	func TestTraining(t *testing.T) {
//		a, err := memory.For(dev)
//		...
//		memtest.NoLeaks(t, a)
//
// TestAllocator is the conformance suite of memory.Allocator: what each allocator must do, as tests. An allocator runs it in
// a few lines:
//
//	func TestConformance(t *testing.T) {
//		memtest.TestAllocator(t, func(t testing.TB, dev device.Device) memory.Allocator {
//			a, err := memory.New(dev, memory.Config{})
//			require.NoError(t, err)
//			return a
//		}, memtest.Caches())
//	}
//
// It runs on a simulated device, whose streams finish when a test says so and whose calls fail when a test says so, and on
// the host, where blocks have content that must survive. On adds other devices.
//
// # What is checked all the time
//
// Every test allocates through a fixture that keeps a model of the blocks in use. After each step it compares: blocks are
// large enough, aligned to 512 bytes, backed by memory over their whole length, and do not overlap; the bytes at both ends
// of a block are those that were written; the statistics agree with the blocks in use and with each other. Checked adds the
// allocator's own proof.
package memtest
