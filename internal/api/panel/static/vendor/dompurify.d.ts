export { default } from 'dompurify'
