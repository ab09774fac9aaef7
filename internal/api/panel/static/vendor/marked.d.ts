export * from 'marked'
