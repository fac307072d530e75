//go:build !linux

package testserver

// mountDisks skips a test that wants a small disk.
func (s *Server) mountDisks() (initdb []string, err error) {
	if s.config.disk != "" {
		s.t.Skip("unsupported: testserver: no small disk on this system")
	}
	return nil, nil
}
