// Package ask is what can be asked of a model and what it answers: requests, events, usage,
// messages, tools, parameters, and the errors an answer can end with. An API's dialect turns its
// wire format into these types and back; package engine answers them.
//
// It imports the standard library only, so that a program that needs these words links no card.
package ask
