//go:build race

package fuzzguard

const raceFactor = 10
