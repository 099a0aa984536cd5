// Package memory hands out a device's memory.
package memory
