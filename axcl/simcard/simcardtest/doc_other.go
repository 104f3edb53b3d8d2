//go:build !cgo || fake || !linux

// Package simcardtest gives tests the simulated card; this build loads no libraries, so there is
// none.
package simcardtest
