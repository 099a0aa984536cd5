package parallel

// Storage is storage, for tests.
type Storage = storage

// PartFile is partFile, for tests.
type PartFile = partFile

// System is the operating system's files.
type System = system

// On makes a Checkpoint use another file system.
func (c *Checkpoint) On(s Storage) *Checkpoint {
	c.sys = s
	return c
}
