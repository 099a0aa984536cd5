// Package parallel trains one model on several devices at once.
package parallel
