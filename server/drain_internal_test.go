package server

// Active is how much work runs.
func (s *Server) Active() int64 { return s.active.Load() }
