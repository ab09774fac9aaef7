package httpapi

// Held returns how many bytes of bodies and of answers count at the moment.
func (s *Server) Held() (bodies, smallBodies, answers int64) {
	return s.bodies.Held(), s.smallBodies.Held(), s.answers.Held()
}
