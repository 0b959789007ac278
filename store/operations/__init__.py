"""The operations of a store, one class for each kind; `store.opening` builds them, `MemoryStore` offers them."""
