package etcd

type limitTable struct{}

func (t *limitTable) init() {}
