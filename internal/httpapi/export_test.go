package httpapi

import "agentplatform/internal/hangup"

// Dormant returns how many streams have a connection and no goroutine.
func (s *Server) Dormant() (n int) {
	s.dormants.mu.Lock()
	defer s.dormants.mu.Unlock()
	for d := range s.dormants.all {
		d.mu.Lock()
		if !d.running {
			n++
		}
		d.mu.Unlock()
	}
	return n
}

// Kept returns how many dormant streams are kept in all: those that are asleep, and those that are at work.
func (s *Server) Kept() int {
	s.dormants.mu.Lock()
	defer s.dormants.mu.Unlock()
	return len(s.dormants.all)
}

// WatchBy has a watcher watch the connections of dormant streams.
func (s *Server) WatchBy(w hangup.Watcher) {
	s.dormants.watcher, s.dormants.all = w, map[*dormant]struct{}{}
}

// Held returns how many bytes of bodies and of answers count at the moment.
func (s *Server) Held() (bodies, smallBodies, answers int64) {
	return s.bodies.Held(), s.smallBodies.Held(), s.answers.Held()
}
