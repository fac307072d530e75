package coord

// fairPushed is a FairNotifier's news: a fair request of some client waits for a key
// that this client holds, or is just being granted.
func (c *Client) fairPushed(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.slots[key]; s != nil {
		s.fairAhead = true
	}
}
