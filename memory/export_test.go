package memory

// Check is check, for tests outside the package.
func (a *Caching) Check() error { return a.check() }
