// Package pages takes ordinary memory from the operating system, outside the Go heap: page-aligned, zeroed, and pageable until
// somebody registers it with a device's driver.
package pages
