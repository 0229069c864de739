package billing

func (l *Ledger) loadModels() error {
	list, err := l.store.Models()
	if err != nil {
		return err
	}
	l.models.byID = make(map[string]int, len(list))
	for number, id := range list {
		l.models.byID[id] = int(number) - 1
	}
	return nil
}

// unknownSlot is where the slots of models begin that the store does not know.
const unknownSlot = 1 << 24

// ModelNumber is that of a model for its rate windows and usage rows: the same
// for as long as the store exists, and on all nodes.
func (l *Ledger) ModelNumber(modelID string) int {
	l.models.Lock()
	defer l.models.Unlock()
	if slot, ok := l.models.byID[modelID]; ok {
		return slot
	}
	number, err := l.store.AddModel(modelID)
	slot := int(number) - 1
	if err != nil {
		slot = unknownSlot + len(l.models.byID)
		l.log.Error().Err(err).Str("model", modelID).Msg(
			"cannot register a model; its usage is recorded by number only")
	}
	l.models.byID[modelID] = slot
	return slot
}

// UpstreamNumber is that of an upstream in records and rows: the same for as long as the store
// exists, and on all nodes; 0 while the store does not say.
func (l *Ledger) UpstreamNumber(name string) uint32 {
	l.upstreams.Lock()
	defer l.upstreams.Unlock()
	if number, ok := l.upstreams.byID[name]; ok {
		return number
	}
	number, err := l.store.AddUpstream(name)
	if err != nil {
		l.log.Error().Err(err).Str("upstream", name).Msg("cannot register an upstream; its usage counts for none until the next reload")
		return 0
	}
	if l.upstreams.byID == nil {
		l.upstreams.byID = map[string]uint32{}
	}
	l.upstreams.byID[name] = number
	return number
}

// modelNo is the number of a slot in records and rows; 0 is not a model.
func modelNo(slot int) uint32 { return uint32(max(slot, -1) + 1) }
