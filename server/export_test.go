package server

// Room is how many bytes of large bodies are held.
func (s *Server) Room() int64 { return s.shared.Large() }

// InFlight is how many requests are being answered.
func (s *Server) InFlight() int64 { return s.metrics.inFlight.Load() }
