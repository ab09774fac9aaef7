// tells it
export const text = 'Nothing was found. Whoever asks is told.'
